"""Weight 0 equals `generate()`: the own beam search against that of transformers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from nearmt.config.beam import Bounded
from nearmt.decoding import BeamConfig, beam_search
from nearmt.engines.devices import DEVICES
from nearmt.methods import PlainMethod
from nearmt.models import DecoderState, Seq2SeqModel, TranslationModel
from tests.tiny import FAMILIES, random_sources, restless_model, tiny_model

SEEDS = (0, 1, 2, 3)


def generated(hf: Any, model: Seq2SeqModel, sources: list[list[int]], **settings: Any) -> tuple[list[list[int]], Any]:
    """What generate() returns, without start token, forced language and padding."""
    token, mask = model.padded(sources)
    if settings["num_beams"] == 1:
        settings.pop("length_penalty", None)  # greedy search knows none
    out = hf.generate(
        input_ids=token,
        attention_mask=mask,
        do_sample=False,
        return_dict_in_generate=True,
        output_scores=True,
        **settings,
    )
    rows = []
    for row in out.sequences.tolist():
        tokens = row[len(model.prompt) :]
        ends = [place for place, value in enumerate(tokens) if value in model.eos_ids]
        rows.append(tokens[: ends[0] + 1] if ends else tokens)
    return rows, getattr(out, "sequences_scores", None)


def assert_same_as_generate(
    hf: Any, sources: list[list[int]], beams: int, penalty: float, length: int, device: str = "cpu"
) -> None:
    model = Seq2SeqModel(hf, device=device)
    expected, scores = generated(hf, model, sources, num_beams=beams, length_penalty=penalty, max_new_tokens=length)
    config = BeamConfig(beams=beams, length_penalty=penalty, max_new_tokens=length)
    for slots in (None, 2):
        found, _ = beam_search(model, PlainMethod(), sources, [len(s) for s in sources], config, slots=slots)
        for number, (hypothesis, tokens) in enumerate(zip(found, expected, strict=True)):
            tied = scores is not None and abs(hypothesis.score - float(scores[number])) < 1e-4
            if hypothesis.tokens != tokens:
                # Only a tie of scores may be broken differently.
                assert tied, (number, slots, hypothesis.tokens, tokens, hypothesis.score)
            elif scores is not None:
                assert hypothesis.score == pytest.approx(float(scores[number]), abs=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("beams", [1, 2, 3, 4, 5])
def test_equals_generate(family: str, seed: int, beams: int) -> None:
    assert_same_as_generate(restless_model(family, seed), random_sources(seed), beams, 1.0, 20)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.7, -0.5])
def test_equals_generate_with_length_penalty(family: str, penalty: float) -> None:
    assert_same_as_generate(restless_model(family, 3), random_sources(3), 4, penalty, 15)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("length", [2, 3, 7])
def test_equals_generate_at_the_length_bound(family: str, length: int) -> None:
    assert_same_as_generate(restless_model(family, 4), random_sources(4), 5, 1.0, length)


@pytest.mark.parametrize("family", FAMILIES)
def test_batch_equals_single(family: str) -> None:
    model = Seq2SeqModel(restless_model(family, 6))
    sources = random_sources(6, count=8)
    config = BeamConfig(beams=4, max_new_tokens=20)
    together, _ = beam_search(model, PlainMethod(), sources, [len(s) for s in sources], config)
    for source, hypothesis in zip(sources, together, strict=True):
        alone, _ = beam_search(model, PlainMethod(), [source], [len(source)], config)
        assert alone[0].tokens == hypothesis.tokens
        assert alone[0].score == pytest.approx(hypothesis.score, abs=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("slots", "ahead"), [(1, 1), (3, 1), (8, 1), (3, 7)])
def test_sentences_in_refilled_slots_are_decoded_as_they_are_alone(
    family: str, slots: int, ahead: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(DEVICES, "cpu", replace(DEVICES["cpu"], ahead=ahead))
    model = Seq2SeqModel(restless_model(family, 7))
    sources = random_sources(7, count=20)
    config, lengths = BeamConfig(beams=3, max_new_tokens=25), [len(source) for source in sources]
    found, _ = beam_search(model, PlainMethod(), sources, lengths, config, slots=slots)
    for source, hypothesis in zip(sources, found, strict=True):
        (alone,), _ = beam_search(model, PlainMethod(), [source], [len(source)], config)
        assert (alone.tokens, alone.steps, alone.truncated) == (
            hypothesis.tokens,
            hypothesis.steps,
            hypothesis.truncated,
        )
        assert alone.score == pytest.approx(hypothesis.score, abs=1e-4)


def test_bounds_are_those_of_each_sentence_where_sentences_follow_others() -> None:
    model = Seq2SeqModel(restless_model("marian", 0, forced_eos_token_id=None))
    lengths = [1, 9, 2, 9, 3, 9]
    sources = [random_sources(0)[0]] * 6

    class FixedBounds(BeamConfig):
        def limit(self, model: Bounded, source_length: int) -> int:
            return source_length

    found, _ = beam_search(model, PlainMethod(), sources, lengths, FixedBounds(beams=2), slots=2)
    for hypothesis, bound in zip(found, lengths, strict=True):
        assert hypothesis.steps <= bound and len(hypothesis.tokens) <= bound
    assert found[0].truncated and len(found[0].tokens) == 1


class Watched(Seq2SeqModel):
    """A model that remembers of how many rows its steps were, and how many had been encoded before each."""

    def __init__(self, hf: Any) -> None:
        super().__init__(hf)
        self.steps: list[tuple[int, int]] = []
        self.encoded = 0

    def encode(self, sources: Sequence[Sequence[int]]) -> DecoderState:
        self.encoded += len(sources)
        return super().encode(sources)

    def step(self, state: DecoderState, newest_BT: Tensor) -> tuple[Tensor, Tensor]:
        self.steps.append((len(newest_BT), self.encoded))
        return super().step(state, newest_BT)


#: The bounds of sentences. In the first case four are done at once while one waits, and four more are to begin;
#: in the second all of a group are done at their first step.
CROWDS: dict[str, list[int]] = {
    "more done than wait": [2, 2, 2, 5, 4, 4, 4, 9, *[6] * 4, *[3] * 4, 7],
    "done at the first step": [3, 4, 5, 6, *[1] * 5, 4, *[1] * 6, 5, 5, 2],
    "some at a time": [(7 * number) % 11 + 1 for number in range(1, 31)],
}


@pytest.mark.parametrize("ahead", [4, 9])
@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("crowd", CROWDS)
def test_slots_stay_full_while_sentences_wait(
    crowd: str, beams: int, ahead: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(DEVICES, "cpu", replace(DEVICES["cpu"], ahead=ahead))
    model, bounds, slots = Watched(tiny_model("nllb", 5)), CROWDS[crowd], 4
    sources = random_sources(5, count=len(bounds))

    class FixedBounds(BeamConfig):
        def limit(self, model: Bounded, source_length: int) -> int:
            return len(model.prompt) - 1 + source_length

    found, _ = beam_search(model, PlainMethod(), sources, bounds, FixedBounds(beams=beams), slots=slots)
    steps = [hypothesis.steps for hypothesis in found]
    assert steps == bounds  # none ends before its bound
    # The first steps of a group are taken together; after them all slots are full until no sentence is left to start.
    encoded_before = [0, *(encoded for _, encoded in model.steps)]
    is_first = [encoded > before for (_, encoded), before in zip(model.steps, encoded_before, strict=False)]
    later = [step for step, first in zip(model.steps, is_first, strict=True) if not first]
    assert sum(is_first) == 1 - (slots - len(bounds)) // ahead
    assert all(rows == slots * beams for rows, encoded in later if encoded < len(bounds))
    # The last ones may run alone.
    assert len(later) <= sum(number - 1 for number in steps) / slots + max(steps)


def test_truncation_is_reported() -> None:
    model = Seq2SeqModel(restless_model("marian", 0, forced_eos_token_id=None))
    sources = random_sources(0)
    short, _ = beam_search(model, PlainMethod(), sources, [len(s) for s in sources], BeamConfig(max_new_tokens=1))
    assert all(len(hypothesis.tokens) == 1 and hypothesis.truncated for hypothesis in short)


def test_length_never_exceeds_positions() -> None:
    hf = restless_model("marian", 1)
    hf.generation_config.suppress_tokens = [0]  # never ends by itself
    model = Seq2SeqModel(hf)
    config = BeamConfig(beams=2, max_new_tokens=1000)
    found, _ = beam_search(model, PlainMethod(), random_sources(1), [5] * 5, config)
    assert {len(hypothesis.tokens) for hypothesis in found} == {model.positions - 1}
    assert all(hypothesis.truncated for hypothesis in found)


@pytest.mark.embedded
@pytest.mark.parametrize("beams", [1, 5])
def test_embedded_equals_generate_on_real_sentences(embedded: TranslationModel, beams: int) -> None:
    from nearmt.models.embedded import load_embedded

    texts = [
        "Guten Morgen!",
        "Die Maschine darf nur von geschultem Personal bedient werden, das diese Anleitung gelesen hat.",
        "Wir haben gestern lange über den neuen Vertrag gesprochen.",
        "Warum?",
        "Der Ausschuss empfiehlt, den Bericht bis Ende März vorzulegen und danach öffentlich zu beraten.",
        "Sie liest jeden Abend ein Buch.",
    ]
    sources = [embedded.codec.source_ids(text) for text in texts]
    hf = load_embedded("de-en").eval()
    with torch.inference_mode():
        assert_same_as_generate(hf, sources, beams, 1.0, 60)
