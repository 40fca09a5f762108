"""Item files of contrast: what is read, what is refused, and the items of the repository."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from nearmt.errors import InputError
from nearmt.research.experiments.contrast_items import VARIANTS, Group, Items, default_folder, read_items
from nearmt.research.experiments.contrast_scoring import THIRDS, occurs

VARIANT_LINES = "\n".join(f'  ["Die Pumpe {n} ist alt.", "Pump {n} is old."],' for n in range(VARIANTS))
CONTRAST = f"""
[[group]]
id = "pump"
stored = ["Die Pumpe ist alt.", "The pump is old."]
variants = [
{VARIANT_LINES}
]
[[group.ask]]
kind = "antonym"
source = "Die Pumpe ist neu."
accepted = ["new"]
forbidden = ["old"]
[[group.ask]]
kind = "noun"
words = 2
source = "Das Ventil ist neu."
accepted = ["valve"]
accepted2 = ["new"]
forbidden = ["pump", "old"]
"""
#: Held-out results stay comparable only if these never change.
FIXED_HALVES = {"engine-cold": "open", "meeting-tuesday": "held", "two-cats": "open", "basket": "open"}
TERMS = """
[[group]]
id = "cover"
term = ["Deckel", "lid plate"]
stored = [["Der Deckel ist offen.", "The lid plate is open."]]
[[group.ask]]
source = "Der Deckel ist zu."
accepted = ["lid plate"]
"""


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / f"{name}.toml").write_text(text, encoding="utf-8")
    return folder


def test_groups_and_asks_are_read(tmp_path: Path) -> None:
    items = read_items(write(tmp_path, short=CONTRAST, terminology=TERMS))
    first, second = items.asks(terms=False)
    assert (first.id, first.kind, first.length, first.words, first.position) == (
        "pump/1",
        "antonym",
        "short",
        1,
        "late",
    )
    assert (second.id, second.words, second.position) == ("pump/2", 2, None)
    assert first.stored == "The pump is old." and second.accepted2 == ("new",)
    (term,) = items.asks(terms=True)
    assert (term.kind, term.stored, term.words) == ("terminology", "Deckel = lid plate", None)
    assert items.asks(terms=False, limit=1) == [first]


def test_variants_are_stored_on_request(tmp_path: Path) -> None:
    items = read_items(write(tmp_path, short=CONTRAST, terminology=TERMS))
    assert [pair.target for pair in items.pairs(terms=False)] == ["The pump is old."]
    assert len(items.pairs(terms=False, variants=True)) == 1 + VARIANTS
    assert [pair.source for pair in items.pairs(terms=True)] == ["Der Deckel ist offen."]
    identities = [pair.id for terms in (False, True) for pair in items.pairs(terms, variants=True)]
    assert len(set(identities)) == len(identities)


@pytest.mark.parametrize(
    ("change", "by", "message"),
    [
        ("[[group]]", "[[group", "not valid TOML"),
        ("[[group]]", "[[groups]]", "unknown key 'groups'"),
        ('id = "pump"', "id = 3", "group 1: id must be a text"),
        ('["Die Pumpe ist alt.", "The pump is old."]', '["Die Pumpe ist alt."]', "'pump': stored: must be two texts"),
        (VARIANT_LINES, VARIANT_LINES.partition("\n")[2], f"has 9 variants; it needs {VARIANTS}"),
        (VARIANT_LINES, '"a", "b"', "variants, pair 1: must be two texts"),
        ('accepted = ["new"]', "accepted = []", "ask 1: accepted is empty"),
        ('accepted = ["new"]', 'accepted = "new"', "ask 1: accepted must be a list of texts"),
        ('forbidden = ["old"]', "", "ask 1: forbidden must be a list of texts"),
        ('kind = "antonym"', "", "ask 1: kind must be a text"),
        ('kind = "antonym"', 'kinds = "antonym"', "ask 1: unknown key 'kinds'"),
        ("words = 2", "words = 3", "ask 2: words = 3: must be 1 or 2"),
        ("words = 2", "", "ask 2: accepted2 goes with words = 2"),
    ],
)
def test_broken_files_are_refused_in_one_line(tmp_path: Path, change: str, by: str, message: str) -> None:
    assert change in CONTRAST
    write(tmp_path, short=CONTRAST.replace(change, by, 1))
    with pytest.raises(InputError) as error:
        read_items(tmp_path)
    text = str(error.value)
    assert message in text and str(tmp_path / "short.toml") in text and "\n" not in text


def test_broken_terminology_is_refused(tmp_path: Path) -> None:
    for change, by, message in (
        ('"Deckel", "lid plate"]', '"Deckel"]', "group 'cover': term: must be two texts"),
        ('accepted = ["lid', 'kind = "noun"\naccepted = ["lid', "ask 1: unknown key 'kind'"),
        ("stored = [[", "variants = [[", "unknown key 'variants'"),
    ):
        write(tmp_path, terminology=TERMS.replace(change, by, 1))
        with pytest.raises(InputError, match=message):
            read_items(tmp_path)


def test_folders_without_items_and_repeated_ids_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no items"):
        read_items(tmp_path)
    write(tmp_path, short=CONTRAST, long=CONTRAST)
    with pytest.raises(InputError, match="two groups are called 'pump'"):
        read_items(tmp_path)
    (tmp_path / "long.toml").write_bytes(b"\xff")
    with pytest.raises(InputError, match="not valid TOML"):
        read_items(tmp_path)


def test_a_half_without_groups_is_refused(tmp_path: Path) -> None:
    half = read_items(write(tmp_path, short=CONTRAST)).groups[0].half
    with pytest.raises(InputError, match="has no groups in the half"):
        read_items(tmp_path, "held" if half == "open" else "open")


# The items of the repository.


@pytest.fixture(scope="module")
def items() -> Items:
    return read_items(default_folder())


def targets(group: Group) -> list[str]:
    return [pair.target for pair in (*group.stored, *group.variants)]


def test_there_are_enough_items(items: Items) -> None:
    contrast, terms = items.asks(terms=False), items.asks(terms=True)
    assert len(contrast) >= 400 and len(terms) >= 200
    assert min(Counter(ask.kind for ask in contrast).values()) >= 30
    assert {ask.length for ask in contrast} == {"short", "medium", "long"}
    assert {ask.words for ask in contrast} == {1, 2}
    assert {ask.position for ask in contrast if ask.words == 1} == set(THIRDS)


def test_accepted_words_are_not_stored_in_their_group(items: Items) -> None:
    for group in items.groups:
        for ask in group.asks if group.term is None else ():
            for target in targets(group):
                assert not occurs((*ask.accepted, *ask.accepted2), target), (ask.id, target)


def test_forbidden_words_are_stored(items: Items) -> None:
    for group in items.groups:
        for ask in group.asks:
            assert not ask.forbidden or ask.is_copied(group.stored[0].target), ask.id


def test_terms_are_stored(items: Items) -> None:
    for group in items.groups:
        for ask in group.asks if group.term is not None else ():
            assert any(ask.is_right(target) for target in targets(group)), ask.id


def test_asks_are_not_stored(items: Items) -> None:
    stored = {pair.source for terms in (False, True) for pair in items.pairs(terms, variants=True)}
    asks = [ask.source for terms in (False, True) for ask in items.asks(terms)]
    assert stored.isdisjoint(asks)
    assert [source for source, times in Counter(asks).items() if times > 1] == []


def test_variants_differ(items: Items) -> None:
    for group in items.groups:
        sources = [pair.source for pair in (*group.stored, *group.variants)]
        assert len(set(sources)) == len(sources), group.id


def test_halves_are_stable_and_balanced(items: Items) -> None:
    halves = {group.id: group.half for group in items.groups}
    assert {name: halves[name] for name in ("engine-cold", "meeting-tuesday", "two-cats", "basket")} == FIXED_HALVES
    for terms in (False, True):
        counts = [len(read_items(default_folder(), half).asks(terms)) for half in ("open", "held")]
        assert sum(counts) == len(items.asks(terms))
        assert min(counts) >= 0.4 * sum(counts)
    open_half = read_items(default_folder(), "open")
    assert {group.half for group in open_half.groups} == {"open"}
    assert open_half.digest() != items.digest()
