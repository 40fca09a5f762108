"""`transformers` with the same weights."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nearmt.decoding import BeamConfig
from nearmt.errors import ConfigError
from nearmt.models import Seq2SeqModel
from nearmt.research.bench.processes import ProcessPool
from nearmt.research.bench.runners import Batch, Decode

_TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def load_weights(name: str, precision: str, device: torch.device) -> Any:
    """Load the model of a folder or a hub id with `transformers`."""
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
    """Load the model in a process with one thread."""
    torch.set_num_threads(1)
    return load_weights(name, precision, torch.device("cpu"))


def decoder(weights: Any, seq2seq: Seq2SeqModel, beam: BeamConfig) -> Decode:
    """Make a decoder that calls `generate` with nearmt's beam size and the language pair's start and forced tokens.

    A `ProcessPool` translates several batches in parallel, one process each: the matrix products of one decoding step
    are too small to gain from several threads, and slow down a lot when a thread waits for a busy CPU.
    """
    settings = {
        "num_beams": beam.beams,
        "do_sample": False,
        "length_penalty": beam.length_penalty,
        "early_stopping": seq2seq.early_stopping,
        "decoder_start_token_id": seq2seq.start_id,
        "forced_bos_token_id": seq2seq.forced_first,
        "pad_token_id": seq2seq.pad_id,
        # Replaced by `max_new_tokens`.
        "max_length": None,
    }
    if beam.beams == 1:
        del settings["length_penalty"], settings["early_stopping"]  # unused by greedy search, with a warning

    def decode(batches: list[Batch]) -> list[list[int]]:
        padded = [(*seq2seq.padded(sources), {**settings, "max_new_tokens": limit}) for sources, limit in batches]
        if isinstance(weights, ProcessPool):
            calls = [(token_BS.tolist(), mask_BS.tolist(), options) for token_BS, mask_BS, options in padded]
            found = weights.map(_generate_lists, calls)
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
    """Cut a row after its first end-of-sentence token."""
    end = next((index for index, token in enumerate(row) if token in eos_ids), len(row) - 1)
    return row[: end + 1]
