"""A decoder that never copies what rows share gives what each row gives on its own."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from torch import Tensor

from nearmt.models import Seq2SeqModel, decoder_state
from tests.tiny import FAMILIES, VOCABULARY, random_sources, tiny_model

every_family = pytest.mark.parametrize("family", FAMILIES)


class Run:
    """Rows of some sentences that are continued, repeated, dropped at random."""

    def __init__(self, model: Seq2SeqModel, sources: list[list[int]], seed: int) -> None:
        self.model, self.sources = model, sources
        self.random = random.Random(seed)
        self.state = model.encode(sources)
        self.prefixes = [list(model.prompt) for _ in sources]
        self.owner = list(range(len(sources)))

    def step(self) -> Tensor:
        """Feed what is new; the logits of all rows."""
        fed = self.state.length
        newest = torch.tensor([prefix[fed:] for prefix in self.prefixes])
        return self.model.step(self.state, newest)[0]

    def choose(self, open_sentences: list[int], rows_each: int) -> None:
        """Every open sentence goes on with so many rows, each from any row it had, with any token."""
        rows = []
        for sentence in open_sentences:
            own = [row for row, owner in enumerate(self.owner) if owner == sentence]
            rows += [self.random.choice(own) for _ in range(rows_each)]
        owner = [self.owner[row] for row in rows]
        self.state.reorder(torch.tensor(rows), sources_change=owner != self.owner)
        tokens = [self.random.randrange(4, VOCABULARY) for _ in rows]
        self.prefixes = [[*self.prefixes[row], token] for row, token in zip(rows, tokens, strict=True)]
        self.owner = owner

    def expected(self, hf: Any) -> Tensor:
        """The logits that transformers gives for each row's whole prefix, without any cache."""
        logits = []
        for prefix, owner in zip(self.prefixes, self.owner, strict=True):
            inputs = {"input_ids": torch.tensor([self.sources[owner]]), "decoder_input_ids": torch.tensor([prefix])}
            with torch.inference_mode():
                logits.append(hf(**inputs, use_cache=False).logits[0, -1])
        return torch.stack(logits)


@every_family
@pytest.mark.parametrize("room", [4, 64])
def test_rows_are_those_of_their_prefixes(family: str, room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder_state, "_ROOM", room)
    hf: Any = tiny_model(family, 3)
    run = Run(Seq2SeqModel(hf), random_sources(3, count=4, longest=8), seed=1)
    still_open = [0, 1, 2, 3]
    for time in range(12):
        found = run.step()
        torch.testing.assert_close(found, run.expected(hf), rtol=1e-4, atol=1e-4)
        if time in (4, 8):
            still_open.pop(1)
        run.choose(still_open, rows_each=1 if time == 10 else 3)


def test_slots_that_nobody_looks_at_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder_state, "_ROOM", 16)
    model = Seq2SeqModel(tiny_model("marian", 3))
    run = Run(model, random_sources(3, count=2, longest=8), seed=2)
    for _ in range(40):
        run.step()
        # All rows go on from the first one: of every step but the last, one slot is in use.
        run.state.reorder(torch.tensor([0] * 4 + [run.state.rows_each] * 4), sources_change=run.state.rows_each == 1)
        run.prefixes = [[*run.prefixes[0], 5 + row] for row in range(8)]
    assert run.state.length == 40
    assert run.state.own[0].value_GXD.shape[1] == 64  # not the 160 of all rows of all steps


def test_a_sentence_does_not_see_the_padding_of_its_neighbours() -> None:
    model = Seq2SeqModel(tiny_model("marian", 3))
    short, long = [7, 8, 0], [4, 5, 6, 7, 8, 9, 10, 11, 0]
    together, alone = Run(model, [short, long], 1).step(), Run(model, [short], 1).step()
    torch.testing.assert_close(together[:1], alone, rtol=1e-5, atol=1e-5)
