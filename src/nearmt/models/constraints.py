"""The rules of a model's generation config as one function on log-probabilities."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from nearmt.errors import ModelError
from nearmt.models.generation import SpecialTokens

if TYPE_CHECKING:
    from transformers import GenerationConfig

#: (prefix [B, T], scores [B, V]) -> scores [B, V]
Rule = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Constraint:
    """The rules of every step, in the order of `generate()`. Forced first tokens are part of the prompt."""

    before: list[Rule]
    #: Tokens of which one is forced where a sentence reaches its length bound; rules of `after` still apply to them.
    forced_last: list[int] | None
    after: list[Rule]
    renormalizes: bool
    #: Whether rules depend on the sign of a score: log-probabilities are never positive, logits may be.
    reads_signs: bool

    def __call__(
        self, prefix_BT: Tensor, log_prob_BV: Tensor, at_bound: bool = False, total_B: Tensor | None = None
    ) -> Tensor:
        """Constrain the log-probabilities of rows of one length; `at_bound` says that they reach their length bound.

        With `total_B`, the log-sum-exp of logits, rules are applied to logits, as `generate()` does in greedy decoding
        but not in beam search.
        """
        forced = self.forced_last if at_bound else None
        shift_B1 = None if total_B is None or forced else total_B[:, None]
        score_BV = log_prob_BV if shift_B1 is None else log_prob_BV + shift_B1
        for rule in self.before:
            score_BV = rule(prefix_BT, score_BV)
        if forced:
            score_BV = torch.full_like(score_BV, -torch.inf)
            score_BV[:, forced] = 0
        for rule in self.after:
            score_BV = rule(prefix_BT, score_BV)
        score_BV = score_BV if shift_B1 is None else score_BV - shift_B1
        return score_BV.log_softmax(dim=-1) if self.renormalizes else score_BV


class _Processors:
    """transformers' logits processors; the package is imported with the first of them."""

    def __getattr__(self, name: str) -> Any:
        from transformers import generation

        return getattr(generation, name)


def constraint_of(
    config: GenerationConfig, tokens: SpecialTokens, vocabulary: int, device: torch.device
) -> Constraint | None:
    """The rules of the generation config, or None if it forces no more than first and last tokens."""
    try:
        before, after = _before(config, tokens.ends, str(device)), _after(config, tokens.ends, str(device))
        reads_signs = config.repetition_penalty not in (None, 1.0) or bool(config.exponential_decay_length_penalty)
        constraint = Constraint(before, tokens.forced_last, after, config.renormalize_logits is True, reads_signs)
        # transformers refuses some values when rules are made, others when they are applied.
        constraint(torch.tensor([[tokens.start]], device=device), torch.zeros(1, vocabulary, device=device))
    except (ValueError, TypeError, IndexError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ModelError(f"the model's generation config is not valid: {reason}") from error
    return constraint if before or after or constraint.renormalizes else None


def _before(config: GenerationConfig, eos_ids: list[int], device: str) -> list[Rule]:
    """Rules that a forced last token overrides."""
    hf = _Processors()
    rules: list[Rule] = []
    if config.sequence_bias is not None:
        rules.append(hf.SequenceBiasLogitsProcessor(config.sequence_bias))
    if config.repetition_penalty is not None and config.repetition_penalty != 1.0:
        rules.append(hf.RepetitionPenaltyLogitsProcessor(config.repetition_penalty))
    if config.no_repeat_ngram_size:
        rules.append(hf.NoRepeatNGramLogitsProcessor(config.no_repeat_ngram_size))
    if config.bad_words_ids is not None:
        rules.append(hf.NoBadWordsLogitsProcessor(config.bad_words_ids, eos_ids))
    # The start token counts for min_length, not for min_new_tokens, which takes precedence.
    shortest = config.min_length if config.min_new_tokens is None else config.min_new_tokens + 1
    if shortest:
        rules.append(hf.MinLengthLogitsProcessor(shortest, eos_ids, device=device))
    return rules


def _after(config: GenerationConfig, eos_ids: list[int], device: str) -> list[Rule]:
    """Rules that apply to forced tokens, too."""
    hf = _Processors()
    rules: list[Rule] = []
    if config.remove_invalid_values is True:
        rules.append(hf.InfNanRemoveLogitsProcessor())
    if config.exponential_decay_length_penalty is not None:
        rules.append(hf.ExponentialDecayLengthPenalty(config.exponential_decay_length_penalty, eos_ids, 1))
    if config.suppress_tokens is not None:
        rules.append(hf.SuppressTokensLogitsProcessor(config.suppress_tokens, device=device))
    if config.begin_suppress_tokens is not None:
        begin = 1 if config.forced_bos_token_id is None else 2
        rules.append(hf.SuppressTokensAtBeginLogitsProcessor(config.begin_suppress_tokens, begin, device=device))
    return rules
