"""Source agreement in every engine, against the rule as the toy server states it, neighbour by neighbour."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from nearmt.contracts import Evidence, Origin
from nearmt.engines.base import CONTESTED, KNOWN, TERM, AgreementRule, Mixing, Retrieved, SentenceWords
from nearmt.engines.reference.scoring import apply_agreement
from tests.engines.every_engine import Engine, every_engine
from tests.random_stores import random_store
from tests.toy_store import ToyServer

RULE = AgreementRule(window=3, paraphrase=0.25, contrast=0.75)
CODES = 1 << 16
#: Codes that do not fit into a signed number of 16 bits among them.
WORDS = [1, 2, 3, 40_000, 50_000, 65_535]


def words_of(
    known: list[list[int]],
    near: list[float],
    contested: list[int] | None = None,
    terms: list[int] | None = None,
    trust: list[float] | None = None,
) -> SentenceWords:
    known_SX = torch.zeros(len(known), CODES, dtype=torch.uint8)
    for row, codes in enumerate(known):
        known_SX[row, codes] = KNOWN
        known_SX[row, terms or []] = TERM
        known_SX[row, contested or []] = CONTESTED
    return SentenceWords(known_SX, torch.tensor(near), torch.tensor(trust or [1.0] * len(known)))


def kept(
    engine: Engine, word_N: list[int], entry_BK: Tensor, words: SentenceWords, rule: AgreementRule = RULE
) -> Tensor:
    """By the table of an engine, for one pair of these words."""
    codes = torch.from_numpy(np.array(word_N, dtype="<u2").view("<i2"))
    key_ND = torch.zeros(len(word_N), 8)
    table = engine.entries([key_ND], torch.zeros(len(word_N), dtype=torch.int32), [len(word_N)], None, codes)
    found_BK = table.agreement(engine.to(entry_BK), words.to(engine.device), rule)
    assert found_BK is not None
    return found_BK.cpu()


@every_engine
def test_a_known_word_keeps_all_and_an_unknown_one_in_a_near_match_nothing(engine: Engine) -> None:
    """Stored words 1 2 3 40000, sentence 1 2 3: only the neighbour of 40000 disagrees, and all around it is known."""
    found_BK = kept(engine, [1, 2, 3, 40_000, 0], torch.tensor([[0, 2, 3, 4, -1]]), words_of([[1, 2, 3]], [0.0]))
    assert found_BK.tolist() == [[1.0, 1.0, 0.0, 1.0, 1.0]]


@every_engine
def test_a_paraphrase_keeps_all_unless_the_store_has_a_near_match(engine: Engine) -> None:
    """None of the words nearby is known."""
    stored, entry_BK = [1, 2, 3, 40_000, 0], torch.tensor([[0, 1], [0, 1]])
    words = words_of([[50_000], [50_000]], [0.0, 0.75])
    assert kept(engine, stored, entry_BK, words).tolist() == [[1.0, 1.0], [0.25, 0.25]]


@every_engine
def test_the_strength_scales_what_is_taken(engine: Engine) -> None:
    stored, entry_BK, words = [1, 2, 3, 40_000, 0], torch.tensor([[3, 0]]), words_of([[1, 2, 3]], [0.0])
    for strength in (0.0, 0.5, 1.0):
        rule = AgreementRule(3, 0.25, 0.75, strength)
        assert kept(engine, stored, entry_BK, words, rule).tolist() == [[1.0 - strength, 1.0]]


@every_engine
def test_without_a_near_match_a_part_of_the_strength_applies(engine: Engine) -> None:
    """What the stored sentence differs in is the same; the sentences have no near match, half a one, and one."""
    stored, entry_BK = [1, 2, 3, 40_000, 0], torch.tensor([[3], [3], [3]])
    words = words_of([[1, 2, 3]] * 3, [0.0, 0.5, 1.0])
    found_BK = kept(engine, stored, entry_BK, words, AgreementRule(3, 0.25, 0.75, strength=0.8, elsewhere=0.25))
    torch.testing.assert_close(found_BK, torch.tensor([[0.8], [0.5], [0.2]]))


@every_engine
def test_a_contested_word_keeps_nothing(engine: Engine) -> None:
    """Stored words 1 2 3: the sentence has all, with one more next to 2. Nearby, 2 counts as known."""
    stored, entry_BK = [1, 2, 3, 40_000, 0], torch.tensor([[0, 1, 2, 3]])
    words, rule = words_of([[1, 3]], [0.0], contested=[2]), AgreementRule(3, 0.25, 0.75, 0.5)
    assert kept(engine, stored, entry_BK, words, rule).tolist() == [[1.0, 0.0, 1.0, 0.5]]


@every_engine
def test_only_neighbours_of_terms_keep_all_of_a_sentence_that_is_not_trusted(engine: Engine) -> None:
    """Stored words 1 2 3 40000 and an end; the sentence has 1 and the term 2, contests 3, and lacks 40000."""
    stored, entry_BK = [1, 2, 3, 40_000, 0], torch.tensor([[0, 1, 2, 3, 4, -1]] * 2)
    words = words_of([[1], [1]], [0.0, 0.0], contested=[3], terms=[2], trust=[0.25, 0.0])
    expected = [[0.25, 1.0, 0.0, 0.125, 0.25, 1.0], [0.0, 1.0, 0.0, 0.0, 0.0, 1.0]]
    assert kept(engine, stored, entry_BK, words, AgreementRule(3, 0.25, 0.75, 0.5)).tolist() == expected


@every_engine
def test_words_nearby_end_with_the_pair_and_do_not_include_its_own(engine: Engine) -> None:
    """The neighbour's pair has its own word three times and one other, which is unknown; the pairs around are known."""
    stored = [1, 1, 0, 50_000, 50_000, 65_535, 50_000, 0, 1, 1, 0]
    words = words_of([[1]], [0.0])
    assert kept(engine, stored, torch.tensor([[4]]), words).tolist() == [[1.0]]
    # Without another word nearby, nothing tells it from a near match.
    assert kept(engine, [1, 0, 2, 0, 1, 0], torch.tensor([[2]]), words).tolist() == [[0.0]]


@every_engine
@pytest.mark.parametrize("slots", [1, 2, 3])
def test_agreement_is_what_the_rule_says(engine: Engine, slots: int) -> None:
    store, random = random_store(3, 40, 8, vocabulary=20), np.random.default_rng(slots)
    word_N = random.choice(WORDS, len(store))
    word_N[np.array(store.ends) - 1] = 0
    server = ToyServer(store.key_ND.numpy(), store.token_N.numpy(), store.ends)
    server.word_N = word_N
    entry_BK = torch.from_numpy(random.integers(-1, len(store), (6, 20)))
    known = [random.choice(WORDS, 3).tolist() for _ in range(slots)]
    near = (random.random(slots) / 2).round(2).tolist()
    contested, term = (int(random.choice(WORDS)) for _ in range(2))
    words = words_of(known, near, [contested], [term], trust=random.random(slots).round(2).tolist())
    rule = AgreementRule(2, 0.2, 0.6, 0.9, 0.4)
    given = {"known": words.known_SX.numpy(), "near": words.near_S.numpy(), "trust": words.trust_S.numpy()}
    expected_BK = torch.from_numpy(server("agreement", entry=entry_BK.numpy(), rule=rule, **given)["kept"])
    found_BK = kept(engine, word_N.tolist(), entry_BK, words, rule)
    torch.testing.assert_close(found_BK, expected_BK)
    assert len(expected_BK.unique()) > 4


@every_engine
def test_a_table_without_words_knows_no_agreement(engine: Engine) -> None:
    table = engine.entries([torch.zeros(3, 8)], torch.zeros(3, dtype=torch.int32), [3])
    words = words_of([[1]], [0.0])
    assert table.agreement(engine.to(torch.tensor([[0, 1]])), words.to(engine.device), RULE) is None


def test_the_share_of_silenced_neighbours_goes_to_the_model() -> None:
    """A row whose neighbours all agree keeps every bit."""
    weight_BK, share_B = torch.tensor([[0.5, 0.3, 0.2], [0.5, 0.3, 0.2], [0.5, 0.3, 0.2]]), torch.full((3,), 0.8)
    entry_BK = torch.arange(9).view(3, 3)
    evidence = Evidence(torch.full((3,), int(Origin.SEARCH)), entry_BK, entry_BK, weight_BK, share_B)
    apply_agreement(evidence, torch.tensor([[1.0, 0.0, 0.5], [0.0, 0.0, 0.0], [1.0, 1.0, 1.0]]))
    torch.testing.assert_close(evidence.share_B, torch.tensor([0.48, 0.0, 0.8]))
    torch.testing.assert_close(evidence.weight_BK[0], torch.tensor([0.5, 0.0, 0.1]) / 0.6)
    assert evidence.weight_BK[1].tolist() == [0.0, 0.0, 0.0]
    assert torch.equal(evidence.weight_BK[2], weight_BK[2]) and float(evidence.share_B[2]) == float(share_B[2])
    assert evidence.silenced_BK is not None
    torch.testing.assert_close(evidence.silenced_BK[0], torch.tensor([0.0, 0.3, 0.1]))


@every_engine
@pytest.mark.parametrize("agreement", [[1.0, 1.0], [0.0, 1.0], [0.3, 0.6], [0.0, 0.0]])
def test_mixing_lets_neighbours_keep_their_share(engine: Engine, agreement: list[float]) -> None:
    """p = (1 - lambda) p_NMT + lambda (sum of kept shares + what is lost times p_NMT), by hand."""
    mixing, logits_BV = Mixing(0.6, 10.0, 0.6, 10.0), torch.tensor([[1.0, 2.0, 3.0, 0.0]])
    found = Retrieved(torch.tensor([int(Origin.SEARCH)]), torch.tensor([[5, 6]]), torch.tensor([[1.0, 4.0]]))
    weight_K, model_V = torch.tensor([-0.1, -0.4]).softmax(dim=0), logits_BV[0].softmax(dim=0)
    kept_K = weight_K * torch.tensor(agreement)
    expected_V = (1 - 0.6 * float(kept_K.sum())) * model_V
    expected_V[[1, 3]] += 0.6 * kept_K
    given = engine.to(logits_BV), found.to(engine.device), engine.to(torch.tensor([[1, 3]])), None, mixing
    scores = engine.scoring().mix_neighbours(*given, agreement_BK=engine.to(torch.tensor([agreement])))
    torch.testing.assert_close(scores.log_probs().cpu()[0].exp(), expected_V, rtol=1e-4, atol=1e-6)
