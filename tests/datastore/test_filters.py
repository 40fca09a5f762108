"""What a filter lets through is all there is: it is a store of those pairs alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from nearmt.contracts import Pair
from nearmt.corpus import read_pairs
from nearmt.datastore import Datastore, FilteredStore, JoinedStore, LiveStore
from nearmt.datastore.filters import Filter, allowed_pairs
from nearmt.datastore.live_store import editable_store
from nearmt.decoding import BeamConfig
from nearmt.errors import ConfigError, DatastoreError
from nearmt.models import TranslationModel
from nearmt.research.tuning.holdout import hold_out
from nearmt.translator import Translator
from tests.cli.conftest import Nearmt, nearmt
from tests.conftest import make_pairs
from tests.datastore.helpers import all_keys, some_queries
from tests.requests import similar_entries, trust_in

__all__ = ["nearmt"]  # a fixture

BEAM = BeamConfig(beams=2, max_new_tokens=10)
GIVEN = {"lambda": 0.6, "temperature": 20.0, "guard": False, "agreement": 0.5, "ends": "all"}
CHUNK = {**GIVEN, "cache-lambda": 0.5, "cache-temperature": 3.0}
TEXTS = ["die pumpe prüfen", "das ventil nicht öffnen", "motor und welle reinigen"]


def of_projects(count: int, seed: int = 4) -> list[Pair]:
    """Every third pair is the manual's, the others are the shop's; some are drafts."""
    pairs = make_pairs(count, seed)
    return [
        Pair(
            pair.source,
            pair.target,
            id=f"pair-{number}",
            origin="manual.tmx" if number % 3 == 0 else "shop.jsonl",
            metadata={"project": "manual" if number % 3 == 0 else "shop", **({"state": "draft"} if number % 5 else {})},
        )
        for number, pair in enumerate(pairs)
    ]


@pytest.fixture
def store(tiny: TranslationModel, tmp_path: Path) -> Datastore:
    return Datastore.build(tmp_path / "store", of_projects(36), tiny)


def only(tiny: TranslationModel, store: Datastore, wanted: Sequence[str]) -> Datastore:
    """A store that was built from these pairs and no others."""
    pairs = [pair for pair in store.pairs() if pair.id in wanted]
    return Datastore.build(store.path.with_name("only"), pairs, tiny)


def ids(memory: LiveStore) -> list[str]:
    return [pair.id for pair in memory.snapshot().pairs()]


def texts(model: TranslationModel, store: LiveStore, method: str, settings: dict[str, Any]) -> list[tuple[str, float]]:
    found = Translator(model, store, method, settings, BEAM).translate(TEXTS)
    return [(translation.text, translation.score) for translation in found]


# Which pairs pass.


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ("project=manual", True),
        ("project=Manual", False),
        ("project=man*", True),
        ("project=*an*l", True),
        ("project=man", False),
        ("project=*", True),
        ("state=*", False),  # nothing is said
        ("note=a [b] (c) *", True),  # nothing but * is special
        ("note=a b c", False),
        ("note=*=e", True),
        ("id=file.tmx:7", True),
        ("origin=file.*", True),
        (" project = manual ", True),
        ("empty=", True),
        ("empty=*", True),
        ("lines=one*two", True),
    ],
)
def test_values_are_compared(text: str, passes: bool) -> None:
    metadata = {"project": "manual", "note": "a [b] (c) d=e", "empty": "", "lines": "one\ntwo"}
    pair = Pair("s", "t", id="file.tmx:7", origin="file.tmx", metadata=metadata)
    assert Filter.parse(text).holds(pair) is passes


@pytest.mark.parametrize("text", ["", "project", "=manual", " =x"])
def test_what_is_no_filter_is_refused(store: Datastore, text: str) -> None:
    with pytest.raises(ConfigError, match="give KEY=VALUE"):
        FilteredStore(store, [text])


def test_all_filters_must_hold(store: Datastore) -> None:
    found = FilteredStore(store, ["project=manual", "state=draft"])
    wanted = [f"pair-{number}" for number in range(36) if number % 3 == 0 and number % 5]
    assert ids(found) == wanted
    mask = allowed_pairs(store.snapshot(), found.filters)
    assert mask.tolist() == [f"pair-{number}" in wanted for number in range(36)]


# What is left is a store of its own.


@pytest.mark.parametrize("k", [1, 8, 10_000])
def test_neighbours_are_those_of_the_pairs_alone(tiny: TranslationModel, store: Datastore, k: int) -> None:
    filtered = FilteredStore(store, ["project=manual"])
    alone = only(tiny, store, ids(filtered))
    query_BD = some_queries(store)
    found, expected = filtered.snapshot().search(query_BD, k), alone.snapshot().search(query_BD, k)
    assert torch.equal(found.distance_BK, expected.distance_BK)
    for row, same in zip(found.entry_BK.tolist(), expected.entry_BK.tolist(), strict=True):
        assert [e < 0 or filtered.snapshot().pair_of(e).id for e in row] == [
            e < 0 or alone.snapshot().pair_of(e).id for e in same
        ]


@pytest.mark.parametrize(("method", "settings"), [("knn", GIVEN), ("chunk", CHUNK), ("chunk", {**CHUNK, "seeds": 3})])
def test_translations_are_those_of_the_pairs_alone(
    tiny: TranslationModel, store: Datastore, method: str, settings: dict[str, Any]
) -> None:
    filtered = FilteredStore(store, ["project=shop"])
    expected = texts(tiny, only(tiny, store, ids(filtered)), method, settings)
    assert texts(tiny, filtered, method, settings) == expected
    assert texts(tiny, store, method, settings) != expected


def test_matches_and_sources_are_those_of_the_pairs_alone(tiny: TranslationModel, store: Datastore) -> None:
    filtered = FilteredStore(store, ["project=shop"])
    alone = only(tiny, store, ids(filtered))
    for pair in store.pairs():
        assert filtered.snapshot().exact(pair.source) == alone.snapshot().exact(pair.source)
        assert filtered.snapshot().matches(pair.source, 4, 0.2) == alone.matches(pair.source, 4, 0.2)
        source = tiny.codec.source_ids(pair.source)
        found = [filtered.snapshot().pair_of(int(entry)).id for entry in similar_entries(filtered, source, 3)]
        assert found == [alone.snapshot().pair_of(int(entry)).id for entry in similar_entries(alone, source, 3)]
        assert trust_in(filtered, source) == trust_in(alone, source)


def test_a_filter_that_all_pass_changes_nothing(tiny: TranslationModel, store: Datastore) -> None:
    filtered = FilteredStore(store, ["project=*"])
    assert filtered.snapshot().identity != store.snapshot().identity
    assert torch.equal(
        filtered.snapshot().search(all_keys(store), 5).entry_BK, store.snapshot().search(all_keys(store), 5).entry_BK
    )
    assert texts(tiny, filtered, "chunk", {}) == texts(tiny, store, "chunk", {})


# What lets nothing through.


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        (["projekt=manual"], "no pair has 'projekt'; known are id, origin, project, state; did you mean 'project'"),
        (["project=manuel"], "no pair has this project; there is shop, manual; did you mean 'manual'"),
        (["id=x"], r"no pair has this id; there is pair-0, .* and 28 more"),
        (["project=manual", "origin=shop.jsonl"], "each matches some pairs, but no pair matches all"),
    ],
)
def test_what_is_there_is_named(store: Datastore, filters: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        FilteredStore(store, filters)
    assert "\n" not in str(caught.value)


def test_long_values_make_no_long_message(tiny: TranslationModel, tmp_path: Path) -> None:
    notes = [Pair("die pumpe", "the pump", metadata={"note": f"{number}\n" + "long " * 500}) for number in range(20)]
    store = Datastore.build(tmp_path / "s", notes, tiny)
    with pytest.raises(ConfigError) as caught:
        FilteredStore(store, ["note=x"])
    assert len(str(caught.value)) < 600 and "\n" not in str(caught.value)


def test_an_empty_store_can_be_filtered(tiny: TranslationModel, tmp_path: Path) -> None:
    store = Datastore.build(tmp_path / "s", [], tiny)
    filtered = FilteredStore(store, ["project=manual"])
    assert ids(filtered) == []
    store.add(of_projects(4), tiny)
    assert ids(filtered) == ["pair-0", "pair-3"]


# A store that grows.


def test_new_pairs_that_pass_are_found(tiny: TranslationModel, store: Datastore) -> None:
    filtered = FilteredStore(store, ["project=manual"])
    before, known = filtered.snapshot(), ids(filtered)
    assert filtered.snapshot() is before
    new = [
        Pair("die welle", "the shaft", id="new-1", metadata={"project": "manual"}),
        Pair("der deckel", "the cover", id="new-2", metadata={"project": "shop"}),
    ]
    store.add(new, tiny)
    assert ids(filtered) == [*known, "new-1"]
    assert [pair.id for pair in before.pairs()] == known
    assert filtered.snapshot().exact("die welle") == new[0] and filtered.snapshot().exact("der deckel") is None
    found = filtered.snapshot().search(all_keys(store)[-4:], 1)
    assert "new-2" not in {filtered.snapshot().pair_of(int(entry)).id for entry in found.entry_BK.flatten()}


def test_what_is_deleted_or_changed_is_followed(tiny: TranslationModel, store: Datastore) -> None:
    filtered = FilteredStore(store, ["project=manual"])
    known = ids(filtered)
    store.delete([known[0]])
    assert ids(filtered) == known[1:]
    store.add([Pair("die welle", "the shaft", id=known[1], metadata={"project": "shop"})], tiny)
    assert ids(filtered) == known[2:]
    store.compact()
    assert ids(filtered) == known[2:]


def test_only_new_parts_are_read_again(
    tiny: TranslationModel, store: Datastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.add([Pair("der deckel", "the cover", id="first")], tiny)
    filtered = FilteredStore(store, ["project=manual"])
    asked: list[str] = []
    real = Filter.holds

    def counted(self: Filter, pair: Pair) -> bool:
        asked.append(pair.id)
        return real(self, pair)

    monkeypatch.setattr(Filter, "holds", counted)
    store.add([Pair("die welle", "the shaft", id="new", metadata={"project": "manual"})], tiny)
    assert ids(filtered)[-1] == "new"
    assert asked == ["first", "new"]  # what lies in the sealed segment is known


def test_nothing_is_added_through_it(tiny: TranslationModel, store: Datastore) -> None:
    filtered = FilteredStore(store, ["project=manual"])
    with pytest.raises(DatastoreError, match="change the datastore itself"):
        filtered.add([Pair("a", "b")], tiny)
    assert editable_store(filtered) is store and editable_store(store) is store


# Several stores, and pairs held out.


def test_a_filter_goes_through_all_stores(tiny: TranslationModel, store: Datastore, tmp_path: Path) -> None:
    other = Datastore.build(tmp_path / "other", of_projects(5, seed=6)[1:3], tiny)
    joined = JoinedStore([store, (other, 0.5)])
    filtered = FilteredStore(joined, ["project=manual"])  # of which the other store has none
    assert ids(filtered) == [pair.id for pair in store.pairs() if pair.metadata["project"] == "manual"]
    weight_1 = filtered.snapshot().weights(torch.tensor([len(store)]))
    assert weight_1 is not None and weight_1.tolist() == [0.5]
    assert editable_store(filtered) is other


def test_pairs_are_held_out_of_those_that_pass(tiny: TranslationModel, tmp_path: Path) -> None:
    store = Datastore.build(tmp_path / "s", of_projects(70), tiny)
    filtered = FilteredStore(store, ["project=shop"])
    masked, dev = hold_out(filtered, 5)
    assert dev and {pair.metadata["project"] for pair in [*dev, *masked.snapshot().pairs()]} == {"shop"}
    assert not {pair.id for pair in dev} & set(ids(masked))


# As files say it, through the command line.

TMX = """<?xml version="1.0"?><tmx version="1.4"><header srclang="de" datatype="plaintext" segtype="sentence"
 adminlang="en" o-tmf="x" creationtool="x" creationtoolversion="1"/><body>
<tu tuid="7" creationid="ANNA"><prop type="project">manual</prop><tuv xml:lang="de"><seg>die pumpe</seg></tuv>
<tuv xml:lang="en"><seg>the pump</seg></tuv></tu>
<tu tuid="8"><prop type="project">shop</prop><tuv xml:lang="de"><seg>das ventil</seg></tuv>
<tuv xml:lang="en"><seg>the valve</seg></tuv></tu></body></tmx>"""
XLIFF = """<?xml version="1.0"?><xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
<file original="chapter-1.html" source-language="de" target-language="en" datatype="html"><body>
<trans-unit id="1" approved="yes"><source>der motor</source><target state="final">the motor</target></trans-unit>
</body></file></xliff>"""
JSONL = [
    {"source": "die welle", "target": "the shaft", "id": "j1", "project": "manual", "reviewed": True},
    {"source": "der deckel", "target": "the cover", "id": "j2", "metadata": {"client": "A B", "year": 2024}},
]


@pytest.fixture
def read(tiny: TranslationModel, tmp_path: Path) -> Datastore:
    """A store of what three formats say about their pairs."""
    (tmp_path / "m.tmx").write_text(TMX, encoding="utf-8")
    (tmp_path / "x.xliff").write_text(XLIFF, encoding="utf-8")
    (tmp_path / "j.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in JSONL), encoding="utf-8")
    files = [tmp_path / name for name in ("m.tmx", "x.xliff", "j.jsonl")]
    pairs = [pair for file in files for pair in read_pairs(file, source_lang="de", target_lang="en")]
    return Datastore.build(tmp_path / "read", pairs, tiny)


@pytest.mark.parametrize(
    ("text", "targets"),
    [
        ("project=manual", ["the pump", "the shaft"]),
        ("creationid=ANNA", ["the pump"]),
        ("tuid=8", ["the valve"]),
        ("id=m.tmx:*", ["the pump", "the valve"]),
        ("origin=x.xliff", ["the motor"]),
        ("file=chapter-1.html", ["the motor"]),
        ("state=final", ["the motor"]),
        ("reviewed=true", ["the shaft"]),
        ("client=A B", ["the cover"]),
        ("year=20*", ["the cover"]),
    ],
)
def test_metadata_of_the_formats(read: Datastore, text: str, targets: list[str]) -> None:
    assert [pair.target for pair in FilteredStore(read, [text]).snapshot().pairs()] == targets


def test_translate_uses_only_what_passes(read: Datastore, tmp_path: Path, nearmt: Nearmt) -> None:
    units = tmp_path / "units.jsonl"
    units.write_text("".join(json.dumps({"source": s}) + "\n" for s in ("die pumpe", "das ventil")), encoding="utf-8")
    options = ("--datastore", read.path, "--set", "max-new-tokens=6", "--set", "exact=true", "--json")
    rows = [json.loads(line) for line in nearmt("translate", units, *options).out.splitlines()]
    assert [row["origin"] for row in rows] == ["memory", "memory"]
    rows = [
        json.loads(line)
        for line in nearmt("translate", units, *options, "--filter", "project=man*", "--matches").out.splitlines()
    ]
    assert [row["origin"] for row in rows] == ["memory", "machine"]
    assert {match["target"] for row in rows for match in row.get("matches", ())} <= {"the pump", "the shaft"}
    failed = nearmt("translate", units, *options, "--filter", "project=x")
    assert failed.code == 2 and "there is manual, shop" in failed.err and failed.err.count("\n") == 1
