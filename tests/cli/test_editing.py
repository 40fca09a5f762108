"""Changing a datastore from the command line: add, update, delete, compact, verify; and what info says of it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from nearmt.contracts import Pair
from nearmt.datastore import Datastore
from nearmt.datastore.disk import Manifest, stored_pairs
from nearmt.datastore.disk.ledger import Ledger
from nearmt.models import TranslationModel
from tests.cli.conftest import Nearmt
from tests.conftest import make_pairs
from tests.datastore.damage import altered
from tests.datastore.helpers import contents, count_encoded


@pytest.fixture
def memory_store(tiny: TranslationModel, tmp_path: Path) -> Path:
    """Pairs a0 ... a19, every second one of project x."""
    pairs = [
        Pair(p.source, p.target, f"a{n}", "made", {"project": "xy"[n % 2]})
        for n, p in enumerate(make_pairs(20, seed=3))
    ]
    return Datastore.build(tmp_path / "store", pairs, tiny).path


@pytest.fixture
def more(tmp_path: Path) -> Path:
    """Three pairs: a new one, one that is in the store under this id, and one without an id."""
    path = tmp_path / "more.jsonl"
    rows = [
        {"id": "b1", "source": "die pumpe", "target": "the pump"},
        {"id": "a3", "source": "der motor", "target": "the motor"},
        {"source": "das ventil", "target": "the valve"},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def ids(store: Path) -> list[str]:
    return [pair.id for pair in stored_pairs(store, Manifest.load(store))]


@pytest.mark.parametrize("log_only", [False, True])
def test_add(log_only: bool, nearmt: Nearmt, memory_store: Path, more: Path, tiny: TranslationModel) -> None:
    flags = ["--log-only"] if log_only else ["--device", "cpu"]
    result = nearmt("add", memory_store, more, *flags, "--json")
    assert result.code == 0, result.err
    found = json.loads(result.out)
    assert (found["added"], found["replaced"], found["pairs"]) == (3, 1, 22)
    assert found["pending"] == (3 if log_only else 0) and found["reading"]["pairs"] == 3
    store = Datastore.open(memory_store)
    assert store.pending == found["pending"]
    store.catch_up(tiny)
    pairs = {pair.id: pair for pair in store.pairs()}
    assert len(pairs) == 22 and pairs["a3"].target == "the motor" and pairs["b1"].source == "die pumpe"
    before = contents(memory_store)
    again = nearmt("add", memory_store, more, *flags)
    assert again.out.startswith(f"{memory_store}: 0 pairs added, 0 of them in place of old ones; 22 pairs")
    assert contents(memory_store) == before


def test_logging_needs_neither_the_model_nor_the_encoder(
    nearmt: Nearmt, memory_store: Path, more: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearmt.models.load_model", None)
    encoded = count_encoded(monkeypatch)
    assert nearmt("add", memory_store, more, "--log-only").code == 0
    assert nearmt("update", memory_store, "a1", "the shaft", "--log-only").code == 0
    assert nearmt("delete", memory_store, "a2").code == 0
    assert encoded == [] and Ledger(memory_store).pending == 4


def test_a_ledger_loads_no_torch(memory_store: Path) -> None:
    """A process that only writes things down starts in a moment."""
    code = (
        "import sys; from pathlib import Path\n"
        "from nearmt.contracts import Pair; from nearmt.datastore.disk.ledger import Ledger\n"
        f"with Ledger.changing(Path({str(memory_store)!r})) as ledger:\n"
        "    ledger.add([Pair('a', 'b')]); ledger.update('a1', 'c'); ledger.delete(['a2'])\n"
        f"from nearmt.cli.main import run; assert not run(['info', {str(memory_store)!r}])\n"
        f"assert not run(['delete', {str(memory_store)!r}, 'a3'])\n"
        "sys.exit(any(name in sys.modules for name in ('torch', 'transformers', 'faiss')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(ids(memory_store)) == 19


def test_added_pairs_are_cleaned_and_counted_like_those_of_a_build(
    nearmt: Nearmt, memory_store: Path, tmp_path: Path
) -> None:
    path = tmp_path / "more.tsv"
    path.write_text("die pumpe\tthe pump\nkaputt\ndie pumpe\tthe pump\nder motor\t\n", encoding="utf-8")
    result = nearmt("add", memory_store, path, "--log-only", "--drop-duplicates", "--json")
    assert json.loads(result.out)["added"] == 1 and "no tab" in result.err
    strict = nearmt("add", memory_store, path, "--log-only", "--strict")
    assert strict.code == 1 and len(ids(memory_store)) == 21
    path.write_text("der motor\tthe motor\nder deckel\tthe cover\n", encoding="utf-8")
    assert json.loads(nearmt("add", memory_store, path, "--log-only", "--limit", 1, "--json").out)["added"] == 1


class TestInterrupted:
    """Whatever was acknowledged is there, and the command says how to go on."""

    @pytest.fixture
    def many(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setattr("nearmt.datastore.disk.pairs.BLOCK", 4)
        path = tmp_path / "many.tsv"
        path.write_text("".join(f"{p.source}\t{p.target}\n" for p in make_pairs(14, seed=9)), encoding="utf-8")
        return path

    @pytest.mark.parametrize(
        ("log_only", "number"), [(False, signal.SIGINT), (True, signal.SIGINT), (False, signal.SIGTERM)]
    )
    def test_add(
        self,
        log_only: bool,
        number: signal.Signals,
        nearmt: Nearmt,
        memory_store: Path,
        many: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        from nearmt.datastore.disk.log import Log

        append, calls = Log.append, [0]

        def interrupted(self: Log, operations: object) -> int:
            calls[0] += 1
            if calls[0] == 3:
                os.kill(os.getpid(), number)
                os.kill(os.getpid(), number)
            return append(self, operations)  # type: ignore[arg-type]

        flags = ["--log-only"] if log_only else ["--device", "cpu"]
        before = signal.getsignal(number)
        with monkeypatch.context() as patch:
            patch.setattr(Log, "append", interrupted)
            result = nearmt("add", memory_store, many, *flags)
        assert result.code == 128 + number and result.err.count("\n") == 1
        count = int(result.err.split("interrupted: ")[1].split()[0])
        assert 4 <= count < 14 and count % 4 == 0
        assert len(ids(memory_store)) == 20 + count
        assert nearmt("add", memory_store, many, *flags).code == 0
        assert [pair.source for pair in stored_pairs(memory_store, Manifest.load(memory_store))][20:] == [
            pair.source for pair in make_pairs(14, seed=9)
        ]
        assert signal.getsignal(number) is before

    def test_delete_finishes(self, nearmt: Nearmt, memory_store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        real = Ledger.delete

        def interrupted(self: Ledger, wanted: list[str]) -> int:
            os.kill(os.getpid(), signal.SIGINT)
            return real(self, wanted)

        monkeypatch.setattr(Ledger, "delete", interrupted)
        assert nearmt("delete", memory_store, "a1").code == 0
        assert len(ids(memory_store)) == 19


@pytest.mark.parametrize("flags", [("--device", "cpu"), ("--log-only",)])
def test_update(flags: tuple[str, ...], nearmt: Nearmt, memory_store: Path, tiny: TranslationModel) -> None:
    result = nearmt("update", memory_store, "a4", "  the \t shaft ", *flags, "--json")
    assert result.code == 0, result.err
    found = json.loads(result.out)
    assert found["id"] == "a4" and found["target"] == "the shaft"
    store = Datastore.open(memory_store)
    store.catch_up(tiny)
    pair = next(pair for pair in store.pairs() if pair.id == "a4")
    assert (pair.target, pair.source) == ("the shaft", found["source"]) and dict(pair.metadata) == {"project": "x"}
    assert nearmt("update", memory_store, "a4", "a pump", *flags).out == "a4: the shaft -> a pump\n"


def test_delete_and_compact(nearmt: Nearmt, memory_store: Path, tmp_path: Path) -> None:
    marked = next(pair for pair in Datastore.open(memory_store).pairs() if pair.id == "a5")
    assert nearmt("delete", memory_store, "a5", "a6").out == f"{memory_store}: 2 pairs deleted, 18 left\n"
    (tmp_path / "ids.txt").write_text("a7\n\n a8 \n", encoding="utf-8")
    result = nearmt("delete", memory_store, "a9", "--from", tmp_path / "ids.txt", "--json")
    assert json.loads(result.out) == {"datastore": str(memory_store), "deleted": 3, "pairs": 15}
    text = f'"id": "{marked.id}"'.encode()
    assert any(text in data for data in contents(memory_store).values())
    info = json.loads(nearmt("info", memory_store, "--json").out)
    assert (info["pairs"], info["deleted_pairs"]) == (15, 5) and "compact" in info["advice"]
    kept = nearmt("compact", memory_store)
    assert "MB are kept for readers on other machines" in kept.out
    assert any(text in data for data in contents(memory_store).values())
    done = nearmt("compact", memory_store, "--json", "--keep-replaced", "0")
    assert done.code == 0, done.err
    assert json.loads(done.out)["deleted_pairs"] == 0
    assert not any(text in data for data in contents(memory_store).values())
    info = json.loads(nearmt("info", memory_store, "--json").out)
    assert (info["pairs"], info["deleted_entries"], info["segments"], info["advice"]) == (15, 0, 1, None)
    assert len(ids(memory_store)) == 15 and "15 pairs" in nearmt("compact", memory_store).out


def test_delete_by_metadata(nearmt: Nearmt, memory_store: Path) -> None:
    assert json.loads(nearmt("delete", memory_store, "--filter", "project=x", "--json").out)["deleted"] == 10
    assert ids(memory_store) == [f"a{n}" for n in range(1, 20, 2)]
    refused = nearmt("delete", memory_store, "--filter", "project=x")
    assert refused.code == 1 and "nothing was deleted" in refused.err
    assert json.loads(nearmt("delete", memory_store, "--filter", "id=a1*", "--json").out)["deleted"] == 6


def test_compacting_learns_what_waits(nearmt: Nearmt, memory_store: Path, more: Path) -> None:
    nearmt("add", memory_store, more, "--log-only")
    info = json.loads(nearmt("info", memory_store, "--json").out)
    # One of them replaces a pair, which is found until then.
    assert info["pending_pairs"] == 3 and info["pairs"] == 20 and "wait for a model" in info["advice"]
    assert info["log_bytes"] > 0 and info["live_entries"] == 0
    assert nearmt("compact", memory_store, "--device", "cpu").code == 0
    info = json.loads(nearmt("info", memory_store, "--json").out)
    assert info["pending_pairs"] == 0 and info["pairs"] == 22


def test_info_counts_what_is_live(nearmt: Nearmt, memory_store: Path, more: Path) -> None:
    nearmt("add", memory_store, more, "--device", "cpu")
    info = json.loads(nearmt("info", memory_store, "--json").out)
    store = Datastore.open(memory_store)
    assert info["entries"] == len(store) and info["pairs"] == store.snapshot().pair_count
    assert 0 < info["live_entries"] < info["entries"] and info["deleted_pairs"] == 1
    assert "live entries" in nearmt("info", memory_store).out


@pytest.mark.parametrize(
    ("arguments", "message", "code"),
    [
        (("delete", "STORE", "a1", "nowhere"), "has no pair with the id 'nowhere'; nothing was changed", 1),
        (("delete", "STORE", "p", "q", "r", "s", "t"), "'p', 'q', 'r' and 2 more", 1),
        (("delete", "STORE"), "nothing to delete: give ids, --from FILE or --filter KEY=VALUE", 2),
        (("delete", "STORE", "--from", "missing.txt"), "missing.txt: cannot be read", 1),
        (("delete", "STORE", "--filter", "project"), "give KEY=VALUE", 2),
        (("delete", "nowhere", "a1"), "no such datastore", 1),
        (("update", "STORE", "nowhere", "text"), "has no pair with the id 'nowhere'; nothing was changed", 1),
        (("update", "STORE", "a1", "  "), "is empty; `nearmt delete` deletes a pair", 2),
        (("update", "STORE", "a1", "text", "--model", "missing"), "cannot be loaded", 1),
        (("add", "STORE", "missing.tsv"), "missing.tsv", 1),
        (("add", "nowhere", "missing.tsv"), "no such datastore", 1),
        (("compact", "nowhere"), "no such datastore", 1),
        (("verify", "nowhere"), "no such datastore", 1),
        (("verify", "STORE", "--device", "cpu"), "--device goes with --repair; checking needs no model", 2),
    ],
)
def test_errors_are_one_line_and_change_nothing(
    arguments: tuple[str, ...],
    message: str,
    code: int,
    nearmt: Nearmt,
    memory_store: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    before = contents(memory_store)
    result = nearmt(*(str(memory_store) if part == "STORE" else part for part in arguments))
    assert result.code == code and message in result.err
    assert result.err.startswith("nearmt: error: ") and result.err.count("\n") == 1
    assert {**contents(memory_store), ".lock": b""} == {**before, ".lock": b""}


def test_a_second_writer_is_refused(nearmt: Nearmt, memory_store: Path, more: Path) -> None:
    with Ledger.changing(memory_store):
        for arguments in (("delete", memory_store, "a1"), ("add", memory_store, more, "--log-only")):
            result = nearmt(*arguments)
            assert result.code == 1 and "another process is writing to it" in result.err


def test_another_model_is_refused(nearmt: Nearmt, memory_store: Path, more: Path, tmp_path: Path) -> None:
    from tests.tiny import tiny_marian_folder

    (tmp_path / "other").mkdir()
    other = tiny_marian_folder(tmp_path / "other", seed=5)
    result = nearmt("add", memory_store, more, "--model", other)
    assert result.code == 1 and "built with model" in result.err and len(ids(memory_store)) == 20


def test_verify(nearmt: Nearmt, memory_store: Path) -> None:
    nearmt("delete", memory_store, "a1")
    sound = nearmt("verify", memory_store)
    assert sound.code == 0 and "manifest.json" in sound.out and sound.err == ""
    (memory_store / "notes.txt").write_text("mine", encoding="utf-8")
    altered(memory_store / "segment-000001" / "token.i32", 5)
    damaged = nearmt("verify", memory_store, "--json")
    found = json.loads(damaged.out)
    assert damaged.code == 1 and found["damaged"] == 1 and "`nearmt verify" in damaged.err
    verdicts = {row["file"]: row["verdict"] for row in found["files"]}
    assert verdicts["segment-000001/token.i32"] == "damaged" and verdicts["notes.txt"] == "stray"
    assert verdicts["log-000001.log"] == "sound"


def test_repair(nearmt: Nearmt, memory_store: Path, more: Path) -> None:
    nearmt("add", memory_store, more, "--device", "cpu")
    before = ids(memory_store)
    assert "sound" in nearmt("verify", memory_store, "--repair").out
    altered(memory_store / "segment-000001" / "key.f16", 5)
    done = nearmt("verify", memory_store, "--repair", "--device", "cpu", "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert found["lost"] == [] and found["pairs"] == 22 and Path(found["kept_as"]).is_dir()
    assert nearmt("verify", memory_store).code == 0 and ids(memory_store) == before
    shutil.rmtree(found["kept_as"])
    (memory_store / "manifest.json").unlink()
    asked = nearmt("verify", memory_store, "--repair")
    assert asked.code == 1 and "give --model" in asked.err


def test_repair_says_what_is_lost(nearmt: Nearmt, memory_store: Path) -> None:
    path = memory_store / "segment-000001" / "pairs.jsonl"
    altered(path, path.read_bytes().index(b'"a6"') - 1)
    done = nearmt("verify", memory_store, "--repair", "--device", "cpu")
    assert done.code == 0, done.err
    assert "1 of its pairs are lost: pair 7 of segment-000001" in done.out and "19 pairs" in done.out
    assert "a6" not in ids(memory_store)


@pytest.mark.parametrize("flags", [["--log-only"], ["--device", "cpu"]])
def test_a_torn_log_is_cut_and_told(flags: list[str], nearmt: Nearmt, memory_store: Path, more: Path) -> None:
    assert nearmt("add", memory_store, more, "--log-only").err.count("cut off") == 0
    (log,) = memory_store.glob("log-*.log")
    with log.open("ab") as file:
        file.write(bytes(4))  # of an append that was not committed
    other = more.with_suffix(".tsv")
    other.write_text("der deckel\tthe cover\n", encoding="utf-8")
    lines = [line for line in nearmt("add", memory_store, other, *flags).err.splitlines() if "cut off" in line]
    assert lines == [f"nearmt: {log}: the last record was not complete; 4 bytes were cut off"]


CATALOGUE = (
    'msgid ""\nmsgstr "Language: en\\n"\n\nmsgid "die pumpe"\nmsgstr "the pump"\n\n'
    'msgctxt "menu"\nmsgid "die pumpe"\nmsgstr "pump"\n\n'
    'msgid "ventil"\nmsgid_plural "ventile"\nmsgstr[0] "valve"\nmsgstr[1] "valves"\n'
)


@pytest.mark.parametrize("log_only", [False, True])
def test_a_corrected_catalogue_corrects_the_memory(
    log_only: bool, nearmt: Nearmt, memory_store: Path, tiny: TranslationModel, tmp_path: Path
) -> None:
    path = tmp_path / "app.po"
    flags = ["--log-only"] if log_only else ["--device", "cpu"]
    path.write_text(CATALOGUE, encoding="utf-8")
    assert json.loads(nearmt("add", memory_store, path, *flags, "--json").out)["pairs"] == 24
    path.write_text(
        CATALOGUE.replace("the pump", "the compressor").replace('"valves"', '"stopcocks"'), encoding="utf-8"
    )
    found = json.loads(nearmt("add", memory_store, path, *flags, "--json").out)
    assert (found["added"], found["replaced"], found["pairs"]) == (2, 2, 24)
    store = Datastore.open(memory_store)
    store.catch_up(tiny)
    targets = [pair.target for pair in store.pairs() if pair.origin == "app.po"]
    assert sorted(targets) == ["pump", "stopcocks", "the compressor", "valve"]
    exact = store.snapshot().exact("ventile")
    assert exact is not None and exact.target == "stopcocks"
