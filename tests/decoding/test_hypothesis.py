"""The hypotheses of one sentence: when the search for more is over."""

from __future__ import annotations

import math

import pytest

from nearmt.decoding.hypothesis import Candidate, Hypothesis, SentenceBeam

EOS, WORD = 2, 7


def finish(candidate: Candidate, score: float, truncated: bool) -> Hypothesis:
    return Hypothesis([candidate.token], score, truncated)


def beam_after(*ended: float, size: int = 3, tolerance: float = math.inf, penalty: float = 1.0) -> SentenceBeam:
    """A beam with hypotheses of 10 tokens that ended with these sums of log-probabilities."""
    beam = SentenceBeam(size, penalty, limit=100, eos_ids=[EOS], tolerance=tolerance)
    beam.advance([Candidate(score, 0, EOS) for score in ended] + [Candidate(0.0, 0, WORD)] * size, 10, 10, finish)
    assert [hypothesis.score for hypothesis in beam.finished] == pytest.approx([s / 10**penalty for s in ended])
    return beam


def goes_on(beam: SentenceBeam, score: float, length: int = 20) -> bool:
    """Whether the beam continues if its best running hypothesis of `length` tokens has this log-probability."""
    running = [Candidate(score - rank, rank, WORD) for rank in range(2 * beam.size)]
    return bool(beam.advance(running, length, length, finish))


@pytest.mark.parametrize(("score", "expected"), [(-8.0, True), (-8.7, True), (-8.9, False), (-50.0, False)])
def test_who_is_far_behind_the_best_is_not_waited_for(score: float, expected: bool) -> None:
    """The best that ended has -0.4 a token; 10 % worse are -0.44, -8.8 with 20 tokens."""
    assert goes_on(beam_after(-4.0, tolerance=0.1), score) is expected
    # As in `generate()`: as long as not all have ended.
    assert goes_on(beam_after(-4.0), score)


def test_the_best_decides_not_the_first() -> None:
    assert not goes_on(beam_after(-4.0, -6.0, tolerance=0.1), -8.9)
    assert goes_on(beam_after(-6.0, tolerance=0.1), -8.9)


def test_once_all_have_ended_both_rules_hold() -> None:
    # The worst finished hypothesis is close: worse running ones are not waited for, however close they are to the best.
    assert not goes_on(beam_after(-4.0, -4.1, -4.2, tolerance=0.1), -8.5)
    assert not goes_on(beam_after(-4.0, -4.1, -4.2), -8.5)
    # The worst is far: who is better than it is waited for only if near the best.
    assert not goes_on(beam_after(-4.0, -6.0, -7.0, tolerance=0.1), -9.0)
    assert goes_on(beam_after(-4.0, -6.0, -7.0), -9.0)


def test_nothing_is_behind_what_has_not_ended() -> None:
    beam = SentenceBeam(3, 1.0, limit=100, eos_ids=[EOS], tolerance=0.1)
    assert goes_on(beam, -1000.0)


def test_nothing_is_better_than_certain() -> None:
    assert not goes_on(beam_after(0.0, tolerance=0.1), -1e-6)
    assert goes_on(beam_after(0.0), -1e-6)


@pytest.mark.parametrize(("penalty", "score", "expected"), [(0.0, -4.3, True), (0.0, -4.5, False), (2.0, -17.0, True)])
def test_scores_are_compared_as_they_count(penalty: float, score: float, expected: bool) -> None:
    assert goes_on(beam_after(-4.0, tolerance=0.1, penalty=penalty), score) is expected


@pytest.mark.parametrize("tolerance", [0.1, math.inf])
def test_greedy_search_ends_with_its_first_end(tolerance: float) -> None:
    beam = SentenceBeam(1, 1.0, limit=100, eos_ids=[EOS], tolerance=tolerance)
    assert beam.advance([Candidate(-1.0, 0, WORD), Candidate(-9.0, 0, EOS)], 10, 10, finish)
    assert not beam.advance([Candidate(-2.0, 0, EOS), Candidate(-2.1, 0, WORD)], 11, 11, finish)
    assert beam.best.steps == 11
