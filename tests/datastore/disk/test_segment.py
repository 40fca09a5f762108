"""Segments: the corpus in order, written in blocks that survive an interruption."""

from __future__ import annotations

import errno
import json
import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearmt.contracts import Pair
from nearmt.datastore.disk import Segment, SegmentWriter
from nearmt.datastore.disk.ids import with_ids
from nearmt.datastore.disk.segment import FILES, PAIRS, SOURCE, SOURCE_END
from nearmt.errors import DatastoreError, OutputError

COLUMNS = 3
SETTINGS = {"fingerprint": "f", "reduction": "r"}


def made_pairs(count: int) -> list[Pair]:
    return [Pair(f"Quelle {n} ü", f"target {n}", id=f"id{n}", origin="made") for n in range(count)]


def entries_of(pair: Pair) -> tuple[np.ndarray, list[int]]:
    """Keys and tokens that follow from the pair, as those of a model would; every seventh is too long."""
    number = int(pair.target.split()[1])
    length = 0 if number % 7 == 6 else 1 + number % 4
    key = np.arange(length * COLUMNS, dtype=np.float32).reshape(length, COLUMNS) / 8 + number
    return key, [number * 10 + place for place in range(length)]


def sources_of(pair: Pair) -> list[int]:
    """Source tokens that follow from the pair; some have none."""
    number = int(pair.target.split()[1])
    return [number + place for place in range(number % 3)]


def append(writer: SegmentWriter, pairs: list[Pair]) -> None:
    parts = [entries_of(pair) for pair in pairs]
    too_long = sum(not tokens for _, tokens in parts)
    keys, tokens = [key for key, tokens in parts if tokens], [tokens for _, tokens in parts]
    writer.append(pairs, keys, tokens, [sources_of(pair) for pair in pairs], too_long)


def write_all(writer: SegmentWriter, pairs: list[Pair], block: int = 4) -> int:
    """Write what the writer has not, and say how many pairs that were."""
    left = list(writer.keep_common(iter(pairs)))
    for start in range(0, len(left), block):
        append(writer, left[start : start + block])
    return len(left)


def content(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in FILES}


def fresh(folder: Path, pairs: list[Pair]) -> dict[str, bytes]:
    writer = SegmentWriter(folder, SETTINGS)
    write_all(writer, pairs)
    writer.seal()
    return content(folder)


def test_arrays_stand_in_corpus_order(tmp_path: Path) -> None:
    pairs = made_pairs(20)
    writer = SegmentWriter(tmp_path / "segment-000001", SETTINGS)
    write_all(writer, pairs)
    record = writer.seal()
    assert (record.name, record.pairs, record.too_long) == ("segment-000001", 20, 2)
    segment = Segment(writer.folder, record, COLUMNS)
    assert list(segment.pairs()) == pairs
    assert [segment.pair(number) for number in range(20)] == pairs
    parts = [entries_of(pair) for pair in pairs]
    tokens = [token for _, part in parts for token in part]
    assert segment.token_N.tolist() == tokens and record.entries == len(tokens)
    assert segment.end_P.tolist() == np.cumsum([len(part) for _, part in parts]).tolist()
    expected = np.concatenate([key for key, _ in parts]).astype(np.float16)
    assert segment.key_ND.dtype == np.float16
    np.testing.assert_array_equal(segment.key_ND, expected)
    sources = [sources_of(pair) for pair in pairs]
    assert segment.source_S.tolist() == [token for source in sources for token in source]
    assert segment.source_end_P.tolist() == np.cumsum([len(source) for source in sources]).tolist()
    # The record of progress stays until a manifest names the segment.
    assert {path.name for path in writer.folder.iterdir()} - {"progress.json"} == set(FILES) == set(record.files)


@pytest.mark.parametrize("blocks", [1, 3, 20])
def test_the_blocks_leave_no_trace(blocks: int, tmp_path: Path) -> None:
    pairs = made_pairs(20)
    writer = SegmentWriter(tmp_path / "a", SETTINGS)
    write_all(writer, pairs, block=blocks)
    writer.seal()
    assert content(tmp_path / "a") == fresh(tmp_path / "b", pairs)


UNICODE = [
    Pair("größer\u2028kleiner", "bigger\u00a0smaller 👩\u200d👧", id="1", origin='quo"te\\'),
    Pair("中文\u3000字", "ไทย العربية e\u0301", id="2", metadata={"kündë": "wért", "a": "b"}),
    Pair("line\nbreak\ttab\r", "\ufeff\x85\x1f", id="3"),
]


def test_any_text_comes_back(tmp_path: Path) -> None:
    writer = SegmentWriter(tmp_path, {})
    writer.append(UNICODE, [np.ones((1, COLUMNS))] * 3, [[1], [2], [3]], [[4], [], [5, 6]], 0)
    segment = Segment(tmp_path, writer.seal(), COLUMNS)
    assert list(segment.pairs()) == UNICODE
    assert segment.pair(2) == UNICODE[2]
    assert "größer".encode() in (tmp_path / "pairs.jsonl").read_bytes()


#: Texts with what JSON escapes, and what could end a line or a string too early.
HARD = ["", '"', "\\", '\\"', 'a", "target": "', "\n\t\x00", "\u2028\x85", "\U0001f600", "ü", '{"id": "', "\\\\n"]


def written(folder: Path, pairs: list[Pair]) -> Segment:
    """A segment of pairs without entries."""
    writer = SegmentWriter(folder, {})
    none: list[list[int]] = [[]] * len(pairs)
    writer.append(pairs, [], none, none, 0)
    return Segment(folder, writer.seal(), COLUMNS)


@given(
    st.lists(
        st.tuples(st.sampled_from(HARD) | st.text(st.characters(codec="utf-8")), st.sampled_from(HARD)), min_size=1
    )
)
def test_sources_are_those_of_the_pairs(texts: list[tuple[str, str]]) -> None:
    pairs = [Pair(source, other, id=other + str(n), origin=other) for n, (source, other) in enumerate(texts)]
    with tempfile.TemporaryDirectory() as name:
        assert list(written(Path(name), pairs).sources()) == [pair.source for pair in pairs]


def with_line(folder: Path, before: bytes, after: bytes) -> Segment:
    """A segment of two pairs whose file was changed in place."""
    segment, path = written(folder, [Pair("abcdef", "x", id="1"), Pair("cd", "y", id="2")]), folder / PAIRS
    path.write_bytes(path.read_bytes().replace(before, after))
    return Segment(folder, segment.record, COLUMNS)


def test_sources_of_lines_that_others_wrote(tmp_path: Path) -> None:
    segment = with_line(tmp_path, b'"id": "1", "source": "abcdef"', b'"source": "abcdef", "id": "1"')
    assert list(segment.sources()) == ["abcdef", "cd"]


@pytest.mark.parametrize("text", [b"ab\xff\xffef", b"\\bcde\\", b"\\xcdef", b"\\ud800"])
def test_sources_that_are_no_text_are_damage(text: bytes, tmp_path: Path) -> None:
    segment = with_line(tmp_path, b"abcdef", text)
    with pytest.raises(DatastoreError, match="line 1 is no pair"):
        list(segment.sources())


def test_an_empty_segment(tmp_path: Path) -> None:
    writer = SegmentWriter(tmp_path, SETTINGS)
    record = writer.seal()
    assert (record.pairs, record.entries, record.too_long) == (0, 0, 0)
    segment = Segment(tmp_path, record, COLUMNS)
    assert segment.key_ND.shape == (0, COLUMNS) and list(segment.pairs()) == []


class Interrupted(Exception):
    pass


def interrupt(folder: Path, pairs: list[Pair], whole_blocks: int, settings: dict[str, Any] = SETTINGS) -> None:
    """Write some blocks of four and then a part of one, as a crash would leave it."""
    writer = SegmentWriter(folder, settings)
    for start in range(0, 4 * whole_blocks, 4):
        append(writer, pairs[start : start + 4])
    torn = {"key.f16": 100, "token.i32": 7, "pairs.jsonl": 11, "source.i32": 6, "source_end.i64": 9}
    for name, size in torn.items():
        with (folder / name).open("ab") as file:
            file.write(b"x" * size)


@pytest.mark.parametrize("whole_blocks", [0, 1, 3])
def test_goes_on_behind_the_last_complete_block(whole_blocks: int, tmp_path: Path) -> None:
    pairs = made_pairs(20)
    interrupt(tmp_path / "a", pairs, whole_blocks)
    writer = SegmentWriter(tmp_path / "a", SETTINGS)
    assert writer.pairs == 4 * whole_blocks
    assert write_all(writer, pairs) == 20 - 4 * whole_blocks
    record = writer.seal()
    assert content(tmp_path / "a") == fresh(tmp_path / "b", pairs)
    assert (record.pairs, record.too_long) == (20, 2)


@pytest.mark.parametrize("kept", [0, 1, 5, 7, 11, 12])
def test_keeps_the_longest_common_beginning(kept: int, tmp_path: Path) -> None:
    pairs = made_pairs(20)
    changed = [*pairs[:kept], *(replace(pair, source="anders") for pair in pairs[kept:])]
    interrupt(tmp_path / "a", pairs, 3)
    writer = SegmentWriter(tmp_path / "a", SETTINGS)
    assert write_all(writer, changed) == 20 - kept
    record = writer.seal()
    assert content(tmp_path / "a") == fresh(tmp_path / "b", changed)
    assert record.too_long == 2 and record.entries == len(np.fromfile(tmp_path / "b" / "token.i32", "<i4"))


def test_a_corpus_that_became_shorter(tmp_path: Path) -> None:
    pairs = made_pairs(20)
    interrupt(tmp_path / "a", pairs, 3)
    writer = SegmentWriter(tmp_path / "a", SETTINGS)
    assert write_all(writer, pairs[:9]) == 0
    assert writer.seal().pairs == 9
    assert content(tmp_path / "a") == fresh(tmp_path / "b", pairs[:9])


def test_a_change_of_metadata_or_id_is_a_change(tmp_path: Path) -> None:
    pairs = made_pairs(8)
    for number, change in enumerate([{"id": "new"}, {"origin": "new"}, {"metadata": {"a": "b"}}, {"target": "t 3"}]):
        folder = tmp_path / str(number)
        interrupt(folder, pairs, 2)
        changed = [*pairs[:3], replace(pairs[3], **change), *pairs[4:]]  # type: ignore[arg-type]
        assert write_all(SegmentWriter(folder, SETTINGS), changed) == 5


@pytest.mark.parametrize("settings", [{}, {**SETTINGS, "reduction": "other"}, {**SETTINGS, "more": 1}])
def test_a_left_over_of_other_settings_is_discarded(settings: dict[str, Any], tmp_path: Path) -> None:
    pairs = made_pairs(20)
    interrupt(tmp_path / "a", pairs, 3)
    writer = SegmentWriter(tmp_path / "a", settings)
    assert writer.pairs == 0
    assert write_all(writer, pairs) == 20
    writer.seal()
    assert content(tmp_path / "a") == fresh(tmp_path / "b", pairs)


@pytest.mark.parametrize("damage", ["cut", "sources cut", "missing", "sources missing", "progress"])
def test_a_damaged_left_over_is_discarded(damage: str, tmp_path: Path) -> None:
    pairs = made_pairs(20)
    interrupt(tmp_path / "a", pairs, 3)
    if damage == "cut":
        (tmp_path / "a" / "key.f16").write_bytes(b"short")
    elif damage == "sources cut":
        os.truncate(tmp_path / "a" / "source.i32", 4)
    elif damage == "missing":
        (tmp_path / "a" / "end.i64").unlink()
    elif damage == "sources missing":
        (tmp_path / "a" / "source_end.i64").unlink()
    else:
        (tmp_path / "a" / "progress.json").write_text("{", encoding="utf-8")
    writer = SegmentWriter(tmp_path / "a", SETTINGS)
    assert writer.pairs == 0
    write_all(writer, pairs)
    writer.seal()
    assert content(tmp_path / "a") == fresh(tmp_path / "b", pairs)


def test_a_left_over_without_sources_is_discarded(tmp_path: Path) -> None:
    """As a nearmt before 0.3 leaves one that was stopped."""
    pairs = made_pairs(20)
    interrupt(tmp_path / "a", pairs, 3)
    path = tmp_path / "a" / "progress.json"
    left = json.loads(path.read_text(encoding="utf-8"))
    for name in (SOURCE, SOURCE_END):
        del left["progress"]["bytes"][name]
        (tmp_path / "a" / name).unlink()
    path.write_text(json.dumps(left), encoding="utf-8")
    writer = SegmentWriter(tmp_path / "a", SETTINGS)
    assert writer.pairs == 0
    write_all(writer, pairs)
    writer.seal()
    assert content(tmp_path / "a") == fresh(tmp_path / "b", pairs)


def test_sources_of_one_pair_reach_to_its_end_after_truncation(tmp_path: Path) -> None:
    """Those that stay keep theirs, those that come instead bring others."""
    pairs = made_pairs(12)
    interrupt(tmp_path, pairs, 3)
    writer = SegmentWriter(tmp_path, SETTINGS)
    changed = [*pairs[:5], *(replace(pair, target=f"target {n + 30}") for n, pair in enumerate(pairs[5:]))]
    write_all(writer, changed, block=3)
    segment = Segment(tmp_path, writer.seal(), COLUMNS)
    parts = np.split(segment.source_S, segment.source_end_P[:-1])
    assert [part.tolist() for part in parts] == [sources_of(pair) for pair in changed]


def test_a_segment_without_source_files_has_no_sources(tmp_path: Path) -> None:
    writer = SegmentWriter(tmp_path, SETTINGS)
    write_all(writer, made_pairs(9))
    record = writer.seal()
    for name in (SOURCE, SOURCE_END):
        (tmp_path / name).unlink()
    files = {name: file for name, file in record.files.items() if not name.startswith("source")}
    segment = Segment(tmp_path, replace(record, files=files), COLUMNS)
    assert segment.source_S.tolist() == [] and segment.source_end_P.tolist() == [0] * 9
    assert segment.source_S.dtype == np.dtype("<i4") and segment.source_end_P.dtype == np.dtype("<i8")
    assert list(segment.pairs()) == made_pairs(9)


def test_interrupted_again_after_the_corpus_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three runs: 12 pairs written; another corpus, stopped within its first block; that corpus again."""
    pairs = made_pairs(20)
    changed = [*pairs[:2], *(replace(pair, target=f"t {n + 1}") for n, pair in enumerate(pairs[2:]))]
    interrupt(tmp_path / "a", pairs, 3)

    def stop(path: Path, value: object) -> None:
        raise Interrupted

    with monkeypatch.context() as patch:
        patch.setattr("nearmt.datastore.disk.segment_writer.write_json", stop)
        with pytest.raises(Interrupted):
            write_all(SegmentWriter(tmp_path / "a", SETTINGS), changed, block=18)
    writer = SegmentWriter(tmp_path / "a", SETTINGS)
    write_all(writer, changed)
    writer.seal()
    assert content(tmp_path / "a") == fresh(tmp_path / "b", changed)


def test_a_full_disk_is_one_line_and_loses_no_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = made_pairs(20)
    writer = SegmentWriter(tmp_path / "a", SETTINGS)
    append(writer, pairs[:4])

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.raises(OutputError, match="the disk is full") as caught:
            append(writer, pairs[4:8])
    assert "\n" not in str(caught.value)
    again = SegmentWriter(tmp_path / "a", SETTINGS)
    assert again.pairs == 4
    write_all(again, pairs)
    again.seal()
    assert content(tmp_path / "a") == fresh(tmp_path / "b", pairs)


def test_ids_are_stable_and_count_repetitions() -> None:
    pairs = [Pair("a", "b"), Pair("a", "b"), Pair("a", "c"), Pair("a", "b", origin="other")]
    first = [pair.id for pair in with_ids(pairs)]
    assert first == [pair.id for pair in with_ids(pairs)]
    assert first[1] == f"{first[0]}-2" and first[3] == f"{first[0]}-3"
    assert first[2] not in first[:2]
    # printf 'a\tb' | b2sum -l 64
    assert first[0] == "21f240a02ae87773"


def test_numbering_goes_on_over_calls() -> None:
    given: list[str] = []
    for _ in range(3):
        given += [pair.id for pair in with_ids([Pair("a", "b"), Pair("c", "d")], given.__contains__)]
    assert given[2:4] == [f"{given[0]}-2", f"{given[1]}-2"] and len(set(given)) == 6
    # A number that became free is given again, and none is given twice at a time.
    free = [given[0], given[4]]
    found = [pair.id for pair in with_ids([Pair("a", "b")] * 3, free.__contains__)]
    assert found == [f"{given[0]}-2", f"{given[0]}-4", f"{given[0]}-5"]


def test_given_ids_are_kept() -> None:
    assert [pair.id for pair in with_ids([Pair("a", "b", id="tuid-7")])] == ["tuid-7"]


def test_source_and_target_are_told_apart() -> None:
    ids = [pair.id for pair in with_ids([Pair("ab", "c"), Pair("a", "bc"), Pair("c", "ab")])]
    assert len(set(ids)) == 3


@given(st.lists(st.tuples(st.sampled_from("aäb"), st.sampled_from("xy\u2028")), max_size=30))
def test_no_id_is_given_twice(texts: list[tuple[str, str]]) -> None:
    def pairs() -> Iterator[Pair]:
        return (Pair(source, target) for source, target in texts)

    ids = [pair.id for pair in with_ids(pairs())]
    assert len(set(ids)) == len(ids) == len(texts)
