"""Weights and tokenizers from folders and from the hub: data only, never code; errors are one line.

Models are untrusted input. transformers is told to trust no remote code (by default it would ask on standard input),
weights are tensors only (safetensors, or a pickle of which only tensors are read), and nothing is loaded of a model of
an unknown family.
"""

from __future__ import annotations

import errno
import json
import pickle
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from nearmt.errors import ModelError
from nearmt.models.embedded import EMBEDDED, load_embedded
from nearmt.models.families import check_family
from nearmt.models.naming import is_hub_id
from nearmt.models.positions import quick_positions

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_ADVICE = f"give {', '.join(EMBEDDED)}, a model folder, or a hub id"
_CONFIG, _GENERATION = "config.json", "generation_config.json"
#: Seconds to wait for an answer of the hub.
_PATIENCE = 5.0
_LONGEST = 200
#: Files that a family's tokenizer needs, one of each group; without them transformers would use an empty vocabulary.
_VOCABULARY = {
    "marian": (("source.spm",), ("target.spm",), ("vocab.json",)),
    "fsmt": (("vocab-src.json",), ("vocab-tgt.json",), ("merges.txt",), ("tokenizer_config.json",)),
    "mbart": (("tokenizer.json", "sentencepiece.bpe.model"),),
    "m2m_100": (("tokenizer.json", "sentencepiece.bpe.model"), ("tokenizer_config.json", "vocab.json")),
    "t5": (("tokenizer.json", "spiece.model"),),
}


def load_pretrained(name: str) -> tuple[PreTrainedModel, Any]:
    """A model in fp32 and its tokenizer, by its embedded name, its folder, or its hub id."""
    from transformers import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    if name in EMBEDDED:
        return load_embedded(name), _tokenizer(str(EMBEDDED[name]), "marian", _options(str(EMBEDDED[name])))
    options = _options(name)
    kind = _checked_kind(name, options)
    return _weights(name, options), _tokenizer(name, kind, options)


def _options(name: str) -> dict[str, Any]:
    """Arguments of `from_pretrained`. A name that is neither a folder nor a possible hub id is refused."""
    if not Path(name).is_dir() and not is_hub_id(name):
        raise ModelError(f"model '{name}' cannot be loaded: there is no such folder ({_ADVICE})")
    return {"trust_remote_code": False, "local_files_only": Path(name).is_dir() or not _hub_answers()}


def _hub_answers() -> bool:
    """Ask once: without a network the hub's cache is used at once, instead of after many retries for every file."""
    from huggingface_hub import constants, get_session

    if constants.is_offline_mode():
        return False
    try:
        get_session().head(constants.ENDPOINT, timeout=_PATIENCE)
    except Exception:  # the library's errors change with its HTTP client
        return False
    return True


def _checked_kind(name: str, options: dict[str, Any]) -> str:
    """The family of a model. Other files and unknown families are refused before anything else is read."""
    if Path(name).is_dir() and not (Path(name) / _CONFIG).is_file():
        raise ModelError(f"folder '{name}' cannot be loaded: it has no {_CONFIG} ({_ADVICE})")
    with _explained(name, "", _hub_advice(name, options)):
        config = _file(_CONFIG, name, options)
    with _explained(name, f"{_CONFIG}: ", _ADVICE):
        kind = str(_json(config).get("model_type"))
        check_family(kind)
    with _explained(name, f"{_GENERATION}: ", "correct it, or get a complete copy of the model"):
        if _has_one_of((_GENERATION,), name, options):
            _json(_file(_GENERATION, name, options))  # transformers would ignore a broken one
    return kind


def _file(file: str, name: str, options: dict[str, Any]) -> Path:
    from transformers.utils import cached_file

    return Path(cached_file(name, file, local_files_only=options["local_files_only"]))


def _has_one_of(files: tuple[str, ...], name: str, options: dict[str, Any]) -> bool:
    for file in files:
        try:
            _file(file, name, options)
        except OSError:
            continue
        return True
    return False


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ModelError("it is not a JSON object")
    return found


def _weights(name: str, options: dict[str, Any]) -> PreTrainedModel:
    from transformers import AutoConfig, AutoModelForSeq2SeqLM

    with _explained(name, f"{_CONFIG}: ", "get a complete copy of the model"):
        config = AutoConfig.from_pretrained(name, **options)
        # A config may name attention kernels, which would be code from the hub.
        config._attn_implementation = None
    with _explained(name, "weights: ", "get a complete copy of the model"), quick_positions():
        model, report = AutoModelForSeq2SeqLM.from_pretrained(
            name, config=config, dtype=torch.float32, weights_only=True, output_loading_info=True, **options
        )
        if missing := sorted(report["missing_keys"]):  # transformers fills in random numbers
            raise ModelError(f"{len(missing)} tensors are missing, such as {missing[0]}")
    found: PreTrainedModel = model
    return found


def _tokenizer(name: str, kind: str, options: dict[str, Any]) -> Any:
    from transformers import AutoTokenizer

    advice = "copy all files of the tokenizer that come with the model"
    with _explained(name, "tokenizer: ", advice), warnings.catch_warnings():
        missing = [" or ".join(group) for group in _VOCABULARY[kind] if not _has_one_of(group, name, options)]
        if missing:
            raise ModelError(f"there is no {', no '.join(missing)}")
        # Marian's tokenizer recommends a package that is not needed here.
        warnings.filterwarnings("ignore", message="Recommended: pip install sacremoses")
        try:
            return AutoTokenizer.from_pretrained(name, **options)
        except TypeError as error:  # a path is None, or a value in a file has a wrong type
            raise ModelError("a file is missing or damaged") from error


def _hub_advice(name: str, options: dict[str, Any]) -> str:
    if Path(name).is_dir() or not options["local_files_only"]:
        return _ADVICE
    return f"check the name and the network; {_ADVICE}"


@contextmanager
def _explained(name: str, part: str, advice: str) -> Iterator[None]:
    """Turn any error while a part of a model is loaded into one line."""
    try:
        yield
    except Exception as error:  # the library raises many kinds for "not there", "no network", "not a model"
        if _is_shortage(error):
            raise
        kind = "folder" if Path(name).is_dir() else "model"
        raise ModelError(f"{kind} '{name}' cannot be loaded: {part}{_reason(error)} ({advice})") from error


def _is_shortage(error: Exception) -> bool:
    """Whether the machine lacks memory or file handles: then the model is not at fault."""
    short = isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
    return short or isinstance(error, MemoryError) or "allocate memory" in str(error)


def _reason(error: Exception) -> str:
    if isinstance(error, pickle.UnpicklingError):  # its message advises to trust the file
        return "they are a pickle with more than tensors in it, which is not loaded"
    lines = [line for line in str(error).splitlines() if line.strip()]
    reason = lines[0].strip() if lines else type(error).__name__
    return reason if len(reason) <= _LONGEST else reason[:_LONGEST] + "..."
