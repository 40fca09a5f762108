"""Every field of transformers' generation config, and how nearmt treats it.

Translations of the model alone are those of `generate()`. So every field is either honoured, or replaced by an option
of nearmt, or unable to change which tokens beam search finds, or a model that sets it is refused. A test compares the
table with the installed transformers. Entries that the installed transformers does not know are ignored, as
`generate()` ignores them.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from nearmt.errors import ModelError

if TYPE_CHECKING:
    from transformers import GenerationConfig

#: Change the output here exactly as in `generate()` (`constraints.py`, `Seq2SeqModel`, `SentenceBeam`).
HONOURED = frozenset(
    {
        "bad_words_ids",
        "begin_suppress_tokens",
        "bos_token_id",
        "decoder_start_token_id",
        "early_stopping",
        "eos_token_id",
        "exponential_decay_length_penalty",
        "forced_bos_token_id",
        "forced_eos_token_id",
        "min_length",
        "min_new_tokens",
        "no_repeat_ngram_size",
        "remove_invalid_values",
        "renormalize_logits",
        "repetition_penalty",
        "sequence_bias",
        "suppress_tokens",
    }
)

#: Settings of nearmt that replace fields of a model.
REPLACED = {
    "length_penalty": "length-penalty",
    "max_length": "max-new-tokens",
    "max_new_tokens": "max-new-tokens",
    "num_beams": "beams",
}

_SAMPLING = "only sampling reads it, and do_sample is refused"
_SPEED = "changes how fast or in how much memory the same tokens are found"
_DRAFT = "drafts are checked by the model, so greedy decoding finds the same tokens"
_OUTPUT = "adds outputs to the best tokens"

#: Fields that cannot change which tokens are found, and why.
IRRELEVANT = {
    **dict.fromkeys(
        ("epsilon_cutoff", "eta_cutoff", "min_p", "temperature", "top_h", "top_k", "top_p", "typical_p"), _SAMPLING
    ),
    **dict.fromkeys(
        (
            "cache_config",
            "compile_config",
            "continuous_batching_config",
            "disable_compile",
            "low_memory",
            "max_cache_len",
            "prefill_chunk_size",
            "use_cache",
        ),
        _SPEED,
    ),
    **dict.fromkeys(
        (
            "assistant_confidence_threshold",
            "assistant_early_exit",
            "assistant_lookbehind",
            "max_matching_ngram_size",
            "num_assistant_tokens",
            "num_assistant_tokens_schedule",
            "prompt_lookup_num_tokens",
            "speculation_type",
            "target_lookbehind",
            "use_mtp",
        ),
        _DRAFT,
    ),
    **dict.fromkeys(
        (
            "num_return_sequences",
            "output_attentions",
            "output_hidden_states",
            "output_logits",
            "output_scores",
            "return_dict_in_generate",
        ),
        _OUTPUT,
    ),
    "diversity_penalty": "only groups of beams read it, and num_beam_groups is refused",
    "pad_token_id": "padding is masked, whatever its number",
    "transformers_version": "names the version that wrote the config",
}

_CACHES = "static offloaded_static sliding_window hybrid hybrid_chunked offloaded_hybrid offloaded_hybrid_chunked"

#: Fields that would change the output in ways that are not implemented, and the values with which they do nothing.
REFUSED: dict[str, tuple[Any, ...]] = {
    "assistant_ensemble_weight": (None,),
    "cache_implementation": (None, "dynamic", "offloaded", *_CACHES.split()),
    "constraints": (None,),
    "do_sample": (None, False),
    "dola_layers": (None,),
    "encoder_no_repeat_ngram_size": (None, 0),
    "encoder_repetition_penalty": (None, 1.0),
    "force_words_ids": (None,),
    "guidance_scale": (None, 1),
    "is_assistant": (None, False),
    "max_time": (None,),
    "num_beam_groups": (None, 1),
    "penalty_alpha": (None, 0),
    "stop_strings": (None,),
    "token_healing": (None, False),
    "watermarking_config": (None,),
}


def read_generation(settings: dict[str, Any]) -> SimpleNamespace:
    """A generation config without transformers: unset fields are None, as there."""
    unset = dict.fromkeys([*HONOURED, *REPLACED, *IRRELEVANT, *REFUSED])
    return SimpleNamespace(**{**unset, **settings})


@dataclass(frozen=True)
class SpecialTokens:
    """Tokens with which decoding begins and ends, and the source's padding."""

    ends: list[int]
    padding: int
    start: int
    forced_first: int | None
    #: One of these is forced where a sentence reaches its length bound.
    forced_last: list[int] | None


def special_tokens(config: GenerationConfig, vocabulary: int) -> SpecialTokens:
    """The special tokens of a generation config, with the defaults of `generate()`."""

    def ids(name: str) -> list[int]:
        value = getattr(config, name)
        found = list(value) if isinstance(value, list | tuple) else [] if value is None else [value]
        if not all(isinstance(token, int) and 0 <= token < vocabulary for token in found):
            raise ModelError(f"the model's generation config sets {name} = {value}: not a token of its vocabulary")
        return found

    def one(name: str) -> int | None:
        found = ids(name)
        if len(found) > 1:
            raise _unsupported(name, found)
        return found[0] if found else None

    ends, start = ids("eos_token_id"), one("decoder_start_token_id")
    start = one("bos_token_id") if start is None else start
    for name, missing in (("eos_token_id", not ends), ("decoder_start_token_id", start is None)):
        if missing:
            raise ModelError(f"the model's generation config has no {name}; add it to generation_config.json")
    assert start is not None
    padding = ends[0] if config.pad_token_id is None else config.pad_token_id
    return SpecialTokens(ends, padding, start, one("forced_bos_token_id"), ids("forced_eos_token_id") or None)


def check_generation(config: GenerationConfig) -> None:
    """Refuse a generation config with a setting that nearmt does not implement."""
    for name, harmless in {**REFUSED, **dict.fromkeys(unknown_fields(config), (None,))}.items():
        value = getattr(config, name, None)
        if value not in harmless:
            raise _unsupported(name, value)


def unknown_fields(config: GenerationConfig) -> list[str]:
    """Fields of the installed transformers that the table does not know."""
    known = HONOURED | REPLACED.keys() | IRRELEVANT.keys() | REFUSED.keys()
    fields = vars(type(config)())  # of the class: the config may have entries that transformers does not know
    return sorted(name for name in fields if not name.startswith("_") and name not in known)


def _unsupported(name: str, value: Any) -> ModelError:
    shown = " ".join(str(value).split())[:80]
    return ModelError(
        f"the model's generation config sets {name} = {shown}, which nearmt does not support; "
        "remove it from generation_config.json"
    )
