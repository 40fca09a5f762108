"""Rows of a decoder that change at random, and the logits that transformers gives for them."""

from __future__ import annotations

import random
from typing import Any

import torch
from torch import Tensor

from nearmt.models import Seq2SeqModel
from tests.tiny import VOCABULARY, random_sources


class Run:
    """Rows of some sentences that are continued, repeated, dropped at random."""

    def __init__(self, model: Seq2SeqModel, sources: list[list[int]], seed: int) -> None:
        self.model, self.sources = model, sources
        self.random = random.Random(seed)
        self.state = model.encode(sources)
        self.prefixes = [list(model.prompt) for _ in sources]
        self.owner = list(range(len(sources)))
        self.is_new = True

    def step(self) -> Tensor:
        """Feed what is new; the logits of all rows."""
        newest = torch.tensor(self.prefixes if self.is_new else [prefix[-1:] for prefix in self.prefixes])
        self.is_new = False
        return self.model.step(self.state, newest)[0]

    def choose(self, open_sentences: list[int], rows_each: int) -> None:
        """Continue every open sentence with `rows_each` rows, each from any row it had, with any token."""
        rows = []
        for sentence in open_sentences:
            own = [row for row, owner in enumerate(self.owner) if owner == sentence]
            rows += [self.random.choice(own) for _ in range(rows_each)]
        owner = [self.owner[row] for row in rows]
        kept = [slot for slot, sentence in enumerate(dict.fromkeys(self.owner)) if sentence in open_sentences]
        self.state.reorder(torch.tensor(rows), kept)
        tokens = [self.random.randrange(4, VOCABULARY) for _ in rows]
        self.prefixes = [[*self.prefixes[row], token] for row, token in zip(rows, tokens, strict=True)]
        self.owner = owner

    def replace(self, slot: int, newer: Run, chosen: int) -> None:
        """Put a sentence of a newer run, with as many rows, into a slot."""
        with torch.inference_mode():
            self.state.replace([slot], newer.state, [chosen])
        each = self.state.rows_each
        rows, newer_rows = slice(slot * each, (slot + 1) * each), slice(chosen * each, (chosen + 1) * each)
        self.prefixes[rows] = newer.prefixes[newer_rows]
        self.owner[rows] = [len(self.sources)] * each
        self.sources = [*self.sources, newer.sources[newer.owner[chosen * each]]]

    def expected(self, hf: Any) -> Tensor:
        """The logits that transformers gives for each row's whole prefix, without any cache."""
        logits = []
        for prefix, owner in zip(self.prefixes, self.owner, strict=True):
            inputs = {"input_ids": torch.tensor([self.sources[owner]]), "decoder_input_ids": torch.tensor([prefix])}
            with torch.inference_mode():
                logits.append(hf(**inputs, use_cache=False).logits[0, -1])
        return torch.stack(logits)

    def check(self, hf: Any) -> None:
        """A step gives every row the logits of its prefix."""
        found_BV = self.step()
        torch.testing.assert_close(found_BV, self.expected(hf), rtol=1e-4, atol=1e-4)


def check_replaced(model: Seq2SeqModel, hf: Any, longest: int) -> Run:
    """A run in which sentences of another one are put into slots; every step is that of the rows' prefixes."""
    run = Run(model, random_sources(3, count=3, longest=8), seed=1)
    newer = Run(model, random_sources(4, count=3, longest=longest), seed=2)
    newer.step()
    newer.choose([0, 1, 2], rows_each=2)
    for time in range(14):
        run.check(hf)
        run.choose(list(dict.fromkeys(run.owner)), rows_each=2)
        if time in (2, 3, 9):
            run.replace({2: 1, 3: 1, 9: 0}[time], newer, {2: 2, 3: 0, 9: 1}[time])
    return run


def steps_of(model: Seq2SeqModel) -> Tensor:
    """The logits of all rows at every step, with few rows and with many."""
    run = Run(model, random_sources(3, count=4, longest=8), seed=1)
    logits = []
    for rows_each in (1, 3, 3, 2, 2, 1):
        logits.append(run.step())
        run.choose([0, 1, 2, 3], rows_each)
    return torch.cat(logits)
