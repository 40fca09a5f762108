"""The default model that ships inside the package.

Expanded, the stored weights (`stored.py`) are an ordinary fp32 model, so an exported folder and the embedded model are
the same model, with the same fingerprint. Where kernels run the model, transformers is not needed.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import torch

from nearmt.errors import OutputError, writing
from nearmt.models.generation import read_generation
from nearmt.models.positions import quick_positions

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from nearmt.models.marian import StoredMarian
    from nearmt.models.marian_tokenizer import MarianTokenizer
    from nearmt.models.stored import StoredTensor

EMBEDDED = {"de-en": Path(__file__).parent.parent / "pretrained" / "de-en"}
WEIGHTS = "model.int8.safetensors"
REDUCTION = "reduction.safetensors"
_NOT_EXPORTED = {WEIGHTS, REDUCTION, "README.md"}


def embedded_config(name: str) -> SimpleNamespace:
    """The settings of config.json, under transformers' names."""
    settings = json.loads((EMBEDDED[name] / "config.json").read_bytes())
    return SimpleNamespace(**settings, hidden_size=settings["d_model"])


def open_embedded(name: str) -> tuple[StoredMarian, MarianTokenizer, dict[str, StoredTensor]]:
    """The embedded model as it is stored, its tokenizer, and its tensors by their names in transformers' model."""
    from nearmt.models.marian import StoredMarian
    from nearmt.models.stored import read_stored, with_derived

    folder, config = EMBEDDED[name], embedded_config(name)
    stored = with_derived(read_stored(folder / WEIGHTS), config.max_position_embeddings, config.d_model)
    generation = read_generation(json.loads((folder / "generation_config.json").read_bytes()))
    return StoredMarian(config, generation, stored), embedded_tokenizer(name), stored


def embedded_tokenizer(name: str) -> MarianTokenizer:
    """The tokenizer of the embedded model; transformers' own takes several times as long for many texts."""
    from nearmt.models.marian_tokenizer import MarianTokenizer

    return MarianTokenizer(EMBEDDED[name])


def load_embedded(name: str) -> PreTrainedModel:
    """The embedded model in fp32, as transformers runs it."""
    from transformers import GenerationConfig, MarianConfig, MarianMTModel, logging

    from nearmt.models.stored import read_stored

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    folder = EMBEDDED[name]
    model: PreTrainedModel
    with quick_positions():
        model, report = MarianMTModel.from_pretrained(
            None,
            config=MarianConfig.from_pretrained(folder),
            state_dict={name: tensor.expanded() for name, tensor in read_stored(folder / WEIGHTS).items()},
            dtype=torch.float32,
            output_loading_info=True,
        )
    # Tied and computed tensors (embeddings, positions, the zero bias) are not stored; all others must be there.
    derived = ("embed_tokens", "embed_positions", "lm_head", "final_logits_bias")
    missing = [key for key in report["missing_keys"] if not any(part in key for part in derived)]
    assert not missing and not report["unexpected_keys"], report
    model.generation_config = GenerationConfig.from_pretrained(folder)
    return model


def export_embedded(name: str, folder: Path) -> None:
    """Write the embedded model as an ordinary Hugging Face folder that other tools can read."""
    if folder.exists() and any(folder.iterdir()):
        raise OutputError(f"{folder}: exists and is not empty; name a new folder")
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        load_embedded(name).save_pretrained(folder)
        for file in EMBEDDED[name].iterdir():
            if file.name not in _NOT_EXPORTED and not (folder / file.name).exists():
                shutil.copyfile(file, folder / file.name)
