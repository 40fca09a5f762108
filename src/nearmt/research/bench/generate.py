"""`transformers` on the same weights: what most people use."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nearmt.decoding import BeamConfig
from nearmt.errors import ConfigError
from nearmt.models import Seq2SeqModel
from nearmt.research.bench.processes import Crew
from nearmt.research.bench.runners import Batch, Decode

_TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def load_weights(name: str, precision: str, device: torch.device) -> Any:
    """The model as `transformers` makes it, of a folder or a hub id."""
    if precision not in _TYPES:
        raise ConfigError(f"transformers has no {precision}; it runs in {', '.join(_TYPES)}")
    from transformers import AutoModelForSeq2SeqLM, logging

    logging.disable_progress_bar()
    return (
        AutoModelForSeq2SeqLM.from_pretrained(name, dtype=_TYPES[precision], trust_remote_code=False).eval().to(device)
    )


def version() -> str:
    import transformers

    return f"transformers:{transformers.__version__}"


def load_alone(name: str, precision: str) -> Any:
    """The model in a process of one thread."""
    torch.set_num_threads(1)
    return load_weights(name, precision, torch.device("cpu"))


def decoder(weights: Any, seq2seq: Seq2SeqModel, search: BeamConfig) -> Decode:
    """`generate` with the beams of nearmt's search; start and forced tokens are those of the translation direction.

    A `Crew` that holds the weights translates batches side by side: products as small as those of a step gain
    little from several threads, and lose everything when a thread has to wait for a CPU that others use.
    """
    settings = {
        "num_beams": search.beams,
        "do_sample": False,
        "length_penalty": search.length_penalty,
        "early_stopping": seq2seq.early_stopping,
        "decoder_start_token_id": seq2seq.start_id,
        "forced_bos_token_id": seq2seq.forced_first,
        "pad_token_id": seq2seq.pad_id,
        # Instead of the model's own bound on all tokens.
        "max_length": None,
    }
    if search.beams == 1:
        del settings["length_penalty"], settings["early_stopping"]  # it warns that greedy search has neither

    def decode(batches: list[Batch]) -> list[list[int]]:
        padded = [(*seq2seq.padded(sources), {**settings, "max_new_tokens": limit}) for sources, limit in batches]
        if isinstance(weights, Crew):
            calls = [(token_BS.tolist(), mask_BS.tolist(), wanted) for token_BS, mask_BS, wanted in padded]
            found = weights.each(_generate_lists, calls)
        else:
            found = [_generate(weights, *call) for call in padded]
        return [_trimmed(row[len(seq2seq.prompt) :], seq2seq.eos_ids) for rows in found for row in rows]

    return decode


def _generate_lists(weights: Any, token_BS: Any, mask_BS: Any, settings: dict[str, Any]) -> list[list[int]]:
    return _generate(weights, torch.tensor(token_BS), torch.tensor(mask_BS), settings)


@torch.inference_mode()
def _generate(weights: Any, token_BS: Tensor, mask_BS: Tensor, settings: dict[str, Any]) -> list[list[int]]:
    rows: list[list[int]] = weights.generate(token_BS, attention_mask=mask_BS, **settings).tolist()
    return rows


def _trimmed(row: list[int], eos_ids: list[int]) -> list[int]:
    """Up to the first end of sentence, which counts."""
    end = next((place for place, token in enumerate(row) if token in eos_ids), len(row) - 1)
    return row[: end + 1]
