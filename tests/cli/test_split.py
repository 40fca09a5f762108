"""A memory in parts: files, counts, refusals."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from nearmt.corpus import CleaningConfig, read_pairs
from nearmt.corpus.writers import WRITERS
from nearmt.datastore import Datastore
from tests.cli.conftest import Nearmt
from tests.cli.test_errors import assert_one_line
from tests.cli.test_tree_run import contents
from tests.corpus.test_splitting import share

ROWS = [(f"die pumpe {number}", f"the pump {number}") for number in range(30)]


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """30 different pairs, a duplicate, and for each a pair with the same source and one with the same target."""
    path = tmp_path / "rows.tsv"
    extra = [*((source.upper(), f"{target} again") for source, target in ROWS)]
    extra += [(f"auch {source}", f" {target.title()}") for source, target in ROWS]
    path.write_text("".join(f"{source}\t{target}\n" for source, target in [*ROWS, ROWS[0], *extra]), encoding="utf-8")
    return path


def test_files_and_counts(nearmt: Nearmt, rows: Path, tmp_path: Path) -> None:
    split = ("split", rows, "--hold-out", 5, "--dev", 3, "--out", tmp_path / "parts" / "deep")
    result = nearmt(*split, "--json")
    assert result.code == 0, result.err
    found = json.loads(result.out)
    files = found["files"]
    assert {name: Path(path).name for name, path in files.items()} == {n: f"{n}.tsv" for n in ("train", "test", "dev")}
    parts = {name: list(read_pairs(path)) for name, path in files.items()}
    assert {name: len(pairs) for name, pairs in parts.items()} == {name: found[name] for name in parts}
    assert (found["test"], found["dev"], found["duplicates"], found["reading"]["pairs"]) == (5, 3, 1, 90)
    held_out = parts["test"] + parts["dev"]
    assert not any(share(one, other) for one in held_out for other in parts["train"])
    every = read_pairs(rows, cleaning=CleaningConfig(drop_duplicates=True))
    assert found["removed"] == sum(any(share(pair, other) for other in held_out) for pair in every) - 8 > 0
    assert found["train"] == 90 - 8 - found["removed"]
    assert all(pair.origin == "rows.tsv" for pair in held_out)
    text = nearmt(*split, "--overwrite")
    assert text.err == "nearmt: dropped: 1 drop-duplicates\nnearmt: cleaned: 30 whitespace\n"
    assert text.out == (
        f"{files['train']}: {found['train']} pairs, {files['test']}: 5 pairs, {files['dev']}: 3 pairs; "
        f"left out of the first: {found['removed']} that share a source or a target with the others\n"
    )


def test_a_seed_gives_the_same_files(nearmt: Nearmt, rows: Path, tmp_path: Path) -> None:
    for name, seed in (("a", 0), ("b", 0), ("c", 7)):
        assert nearmt("split", rows, "--hold-out", 5, "--seed", seed, "--out", tmp_path / name).code == 0
    first, again, other = (contents(tmp_path / name) for name in "abc")
    assert first == again and first["test.tsv"] != other["test.tsv"]


def test_files_of_other_formats(nearmt: Nearmt, rows: Path, tmp_path: Path) -> None:
    names = {"train": tmp_path / "t.tmx.gz", "test": tmp_path / "e.jsonl", "dev": tmp_path / "d.po"}
    outputs = [word for name, path in names.items() for word in (f"--out-{name}", path)]
    split = ("split", rows, "--hold-out", 5, "--dev", 2, *outputs)
    assert_one_line(nearmt(*split), 2, "t.tmx.gz: tmx names its languages; give --source-lang and --target-lang")
    languages = ("--source-lang", "de", "--target-lang", "en")
    assert nearmt(*split, *languages).code == 0
    counts = [len(list(read_pairs(path, source_lang="de", target_lang="en"))) for path in names.values()]
    assert counts[1:] == [5, 2] and 90 - 3 * 7 <= counts[0] <= 90 - 2 * 7
    assert gzip.decompress(names["train"].read_bytes()).startswith(b"<?xml")


def test_several_memories_are_one(nearmt: Nearmt, rows: Path, tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "a.de").write_text("der motor\ndie welle\n", encoding="utf-8")
    (tmp_path / "more" / "a.en").write_text("the motor\nthe shaft\n", encoding="utf-8")
    languages = ("--source-lang", "de", "--target-lang", "en")
    split = ("split", rows, tmp_path / "more", *languages, "--hold-out", 2, "--out", tmp_path / "parts", "--json")
    assert json.loads(nearmt(*split).out)["reading"]["pairs"] == 92


def test_a_split_of_an_exported_store(nearmt: Nearmt, store: Path, tmp_path: Path) -> None:
    exported = tmp_path / "m.jsonl"
    assert nearmt("export", store, "--format", "jsonl", "--output", exported).code == 0
    assert nearmt("split", exported, "--hold-out", 10, "--out", tmp_path / "parts").code == 0
    stored = {(pair.source, pair.target) for pair in Datastore.open(store).pairs()}
    assert {(pair.source, pair.target) for pair in read_pairs(tmp_path / "parts" / "test.tsv")} < stored


def test_duplicates_can_be_kept(nearmt: Nearmt, rows: Path, tmp_path: Path) -> None:
    split = ("split", rows, "--hold-out", 2, "--out", tmp_path / "parts", "--json")
    found = json.loads(nearmt(*split, "--no-drop-duplicates").out)
    assert found["duplicates"] == 0 and found["reading"]["pairs"] == 91
    assert found["train"] + found["test"] + found["removed"] == 91


# Refusals.


def test_nothing_is_written_over(nearmt: Nearmt, rows: Path, tmp_path: Path) -> None:
    parts = tmp_path / "parts"
    parts.mkdir()
    (parts / "test.tsv").write_text("precious", encoding="utf-8")
    split = ("split", rows, "--hold-out", 2, "--out", parts)
    assert_one_line(nearmt(*split), 1, "test.tsv: is already there; give --overwrite")
    assert contents(parts) == {"test.tsv": b"precious"}
    assert nearmt(*split, "--overwrite").code == 0 and set(contents(parts)) == {"train.tsv", "test.tsv"}
    again = ("split", parts, "--hold-out", 2, "--out", parts, "--overwrite")
    assert_one_line(nearmt(*again), 2, "train.tsv: is an input file; name another --out")


def test_wrong_usage(nearmt: Nearmt, rows: Path, tmp_path: Path) -> None:
    def refused(code: int, told: str, *options: object, hold_out: int = 2) -> None:
        assert_one_line(nearmt("split", rows, "--hold-out", hold_out, *options), code, told)

    files = ("--out-train", tmp_path / "a.tsv", "--out-test", tmp_path / "b.tsv")
    refused(2, "give --out FOLDER, or files for all sets: --out-train is missing")
    refused(2, "--out-test is missing", *files[:2])
    refused(2, "--out-dev is missing", *files, "--dev", 2)
    refused(2, "--out-dev needs --dev N", *files, "--out-dev", tmp_path / "c.tsv")
    refused(2, "exclude each other", *files, "--out", tmp_path / "parts")
    refused(2, "would be written to one file", *files[:3], tmp_path / "a.tsv")
    refused(2, "rows.tsv: is an input file; name another --out-test", *files[:3], rows, "--overwrite")
    refused(2, "unknown format; name a file that ends in .tmx, .tsv", *files[:3], tmp_path / "b.xlsx")
    refused(1, "there is no folder", *files[:3], tmp_path / "none" / "b.tsv")
    refused(1, "is not a folder", "--out", rows)
    refused(1, "cannot be written", "--out", rows / "parts")
    refused(1, "91 pairs cannot be held out: the memory has", "--out", tmp_path / "p", hold_out=91)
    refused(1, "nothing remains to build from", "--out", tmp_path / "p", "--no-whitespace", "--limit", 2, hold_out=2)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["rows.tsv"]


def test_memories_that_cannot_be_read(nearmt: Nearmt, rows: Path, tmp_path: Path) -> None:
    bad, out = tmp_path / "bad.tmx", tmp_path / "parts"
    bad.write_text("no tmx", encoding="utf-8")
    assert_one_line(nearmt("split", bad, "--hold-out", 2, "--out", out), 1, "no pairs could be read", "broken XML")
    assert_one_line(nearmt("split", bad, rows, "--hold-out", 2, "--out", out, "--strict"), 1, "broken XML")
    assert_one_line(nearmt("split", tmp_path / "none.tsv", "--hold-out", 2, "--out", out), 1, "no such file")
    assert not out.exists()
    result = nearmt("split", bad, rows, "--hold-out", 2, "--out", out)
    assert result.code == 0 and "bad.tmx, line 1: broken XML" in result.err


def test_a_full_disk_leaves_nothing(nearmt: Nearmt, rows: Path, tmp_path: Path) -> None:
    parts = tmp_path / "parts"
    parts.mkdir()
    (parts / "test.tsv").symlink_to("/dev/full")
    full = nearmt("split", rows, "--hold-out", 2, "--out", parts, "--overwrite")
    assert_one_line(full, 1, "test.tsv: the disk is full; free some space")
    assert [path.name for path in parts.iterdir()] == ["test.tsv"]


def test_an_interrupted_split_leaves_nothing(
    nearmt: Nearmt, rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setitem(WRITERS, "tsv", interrupted)
    assert nearmt("split", rows, "--hold-out", 2, "--out", tmp_path / "parts").code == 130
    assert contents(tmp_path / "parts") == {}
