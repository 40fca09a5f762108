"""`transformers` on the same weights: what most people use."""

from __future__ import annotations

from typing import Any

import torch

from nearmt.bench.runners import Batch, Decode
from nearmt.decoding import SearchConfig
from nearmt.errors import ConfigError
from nearmt.models import Seq2SeqModel

_TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def load_weights(name: str, precision: str, device: torch.device) -> Any:
    """The model as `transformers` makes it, of a folder or a hub id."""
    if precision not in _TYPES:
        raise ConfigError(f"transformers has no {precision}; it runs in {', '.join(_TYPES)}")
    from transformers import AutoModelForSeq2SeqLM

    return AutoModelForSeq2SeqLM.from_pretrained(name, dtype=_TYPES[precision]).eval().to(device)


def version() -> str:
    import transformers

    return f"transformers:{transformers.__version__}"


def decoder(weights: Any, seq2seq: Seq2SeqModel, search: SearchConfig) -> Decode:
    """`generate` with the beams of nearmt's search; start and forced tokens are those of the translation direction."""
    settings = {
        "num_beams": search.beams,
        "do_sample": False,
        "length_penalty": search.length_penalty,
        "early_stopping": False,
        "decoder_start_token_id": seq2seq.start_id,
        "forced_bos_token_id": seq2seq.forced_first,
        "pad_token_id": seq2seq.pad_id,
        # Instead of the model's own bound on all tokens.
        "max_length": None,
    }
    if search.beams == 1:
        del settings["length_penalty"], settings["early_stopping"]  # it warns that greedy search has neither

    @torch.inference_mode()
    def decode(batches: list[Batch]) -> list[list[int]]:
        found: list[list[int]] = []
        for sources, limit in batches:
            token_BS, mask_BS = seq2seq.padded(sources)
            rows = weights.generate(token_BS, attention_mask=mask_BS, **settings, max_new_tokens=limit).tolist()
            found += [_trimmed(row[len(seq2seq.prompt) :], seq2seq.eos_ids) for row in rows]
        return found

    return decode


def _trimmed(row: list[int], eos_ids: list[int]) -> list[int]:
    """Up to the first end of sentence, which counts."""
    end = next((place for place, token in enumerate(row) if token in eos_ids), len(row) - 1)
    return row[: end + 1]
