"""What a model's generation config forbids or forces, as one function on log-probabilities."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from torch import Tensor

if TYPE_CHECKING:
    from transformers import GenerationConfig

#: (prefix [B, T], log-probabilities [B, V]) -> log-probabilities [B, V]
Constraint = Callable[[Tensor, Tensor], Tensor]


def constraint_of(config: GenerationConfig, eos_ids: list[int], device: str) -> Constraint | None:
    """The rules of the generation config that hold at every step, or None if there are none.

    Forced first tokens are part of the decoder prompt and the forced last token is the beam's
    business, because it knows each sentence's length bound.
    """
    from transformers import generation as hf

    rules: list[Constraint] = []
    if config.sequence_bias:
        rules.append(hf.SequenceBiasLogitsProcessor(config.sequence_bias))
    if config.repetition_penalty and config.repetition_penalty != 1.0:
        rules.append(hf.RepetitionPenaltyLogitsProcessor(config.repetition_penalty))
    if config.no_repeat_ngram_size:
        rules.append(hf.NoRepeatNGramLogitsProcessor(config.no_repeat_ngram_size))
    if config.bad_words_ids:
        rules.append(hf.NoBadWordsLogitsProcessor(config.bad_words_ids, eos_ids))
    if config.min_length:
        rules.append(hf.MinLengthLogitsProcessor(config.min_length, eos_ids, device=device))
    if config.min_new_tokens:
        rules.append(hf.MinNewTokensLengthLogitsProcessor(1, config.min_new_tokens, eos_ids, device=device))
    if config.suppress_tokens:
        rules.append(hf.SuppressTokensLogitsProcessor(config.suppress_tokens, device=device))
    if config.begin_suppress_tokens:
        begin = 1 if config.forced_bos_token_id is None else 2
        rules.append(hf.SuppressTokensAtBeginLogitsProcessor(config.begin_suppress_tokens, begin, device=device))
    if not rules:
        return None

    def constrain(prefix_BT: Tensor, log_prob_BV: Tensor) -> Tensor:
        for rule in rules:
            log_prob_BV = rule(prefix_BT, log_prob_BV)
        return log_prob_BV

    return constrain
