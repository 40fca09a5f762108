"""The experiment support: words that neighbours alone brought into a translation."""

from __future__ import annotations

from typing import Any

import pytest

from nearmt.contracts import Pair, TokenProvenance, Witness
from nearmt.datastore import Datastore
from nearmt.models import TranslationModel
from nearmt.models.words import form_codes
from nearmt.research.experiments import EXPERIMENTS
from nearmt.research.experiments.support import Counts, count_support, supports, word_votes, words_in
from nearmt.translator import Translator
from tests.research.experiments.conftest import Runner

ROWS = ["base", "knn", "knn-all", "knn-agreement", "chunk-all", "chunk"]
NOUNS = {"Motor": "engine", "Ofen": "furnace", "Tank": "tank", "Deckel": "cover", "Kessel": "boiler"}


def token(text: str, **shares: float) -> TokenProvenance:
    witnesses = tuple(Witness(pair_id, share) for pair_id, share in shares.items())
    return TokenProvenance(text, "search", True, 0.1, 0.9, witnesses, ())


def test_votes_of_subwords_add_up_for_their_word() -> None:
    votes = word_votes(
        "The engines.", [token(" The", a=0.5), token(" eng", a=0.2, b=0.3), token("ines", b=0.1), token(".")]
    )
    assert votes == {(0, 3): {"a": 0.5}, (4, 11): {"a": 0.2, "b": pytest.approx(0.4)}, (11, 12): {}}


def test_a_source_supports_forms_of_its_words() -> None:
    codes = frozenset().union(*map(form_codes, ("die", "minuten", "vergehen")))
    assert supports("minute", codes) and supports("minuten", codes)
    assert not supports("stunde", codes)


def test_shares_of_nothing_are_unknown() -> None:
    counts = Counts(words=8)
    counts.add(supported=False, right=True)
    counts.add(supported=False, right=False)
    evaluation = counts.evaluation()
    assert (evaluation["unsupported_share"], evaluation["unsupported_precision"]) == (25.0, 50.0)
    assert (evaluation["supported_share"], evaluation["supported_precision"]) == (0.0, None)


def test_all_rows_are_measured_on_dev_lines(runner: Runner) -> None:
    assert runner.measure("support", domains="koran", tune="none", limit=5) == len(ROWS)
    cells = runner.report("support").report["cells"]["koran"]
    assert list(cells) == ROWS == [row.name for row in EXPERIMENTS["support"].rows]
    lines = (runner.data / "koran" / "dev.tsv").read_text(encoding="utf-8").splitlines()[:5]
    (test,) = {cell["test"] for cell in cells.values()}
    found = runner.artefacts().results.test_lines(test, "source")
    assert found == [line.split("\t")[0] for line in lines]
    assert all(cell["evaluation"]["sentences"] == 5 for cell in cells.values())


@pytest.fixture(scope="module")
def store(embedded: TranslationModel, tmp_path_factory: pytest.TempPathFactory) -> Datastore:
    pairs = [Pair(f"Der {noun} ist am Morgen kalt.", f"The {name} is icy at dawn.") for noun, name in NOUNS.items()]
    pairs.append(Pair("Vorsicht, heiß!", "Caution, scorching!"))
    return Datastore.build(tmp_path_factory.mktemp("support") / "store", pairs, embedded)


@pytest.mark.embedded
@pytest.mark.parametrize("agreement", [0, 1])
def test_words_without_support_are_counted(embedded: TranslationModel, store: Datastore, agreement: int) -> None:
    settings: dict[str, Any] = {"lambda": 0.95, "agreement": agreement, "guard": False}
    translator = Translator(embedded, store, "knn", settings)
    pair = Pair("Der Motor ist am Morgen heiß.", "The engine is icy.")
    evaluation, (text,) = count_support(translator, [pair], None)
    alone = words_in(Translator(embedded).translate(pair.source).text)
    brought = words_in(text) - alone
    unsupported = [word for word in ("icy",) if word in brought]
    assert evaluation["words"] == sum(words_in(text).values())
    assert unsupported == ([] if agreement else ["icy"])
    assert len(unsupported) <= evaluation["unsupported"] <= sum(brought.values())
    assert evaluation["unsupported_right"] == ("icy" in unsupported)
