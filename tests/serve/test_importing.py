"""Import of files into memories, in the background."""

from __future__ import annotations

import gzip
import io
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nearmt.contracts import Pair
from nearmt.errors import InputError
from nearmt.models import TranslationModel
from nearmt.serve import importing
from nearmt.serve.config import ServeConfig
from nearmt.serve.errors import NotFound, TooLarge
from nearmt.serve.jobs import Job, JobRun
from nearmt.serve.keys import ANONYMOUS
from nearmt.serve.models import Models
from nearmt.serve.service import Service
from tests.serve.waiting import finished

ROWS = "".join(f"die pumpe {number} .\tthe pump {number} .\n" for number in range(20))
TMX = """<tmx version="1.4"><header srclang="en"/><body>
<tu tuid="7"><tuv xml:lang="en"><seg>the &lt;b> pump</seg></tuv><tuv xml:lang="de"><seg>die pumpe</seg></tuv></tu>
</body></tmx>"""
HEADER = 'msgid ""\nmsgstr "Language: en\\n"\n\n'
PO = HEADER + 'msgid "die pumpe"\nmsgstr "the pump"\n\n#, fuzzy\nmsgid "die welle"\nmsgstr "the shaft"\n'


@pytest.fixture
def filled(service: Service) -> Service:
    service.create_memory(ANONYMOUS, "a")
    return service


def imported(service: Service, name: str, content: str | bytes, **options: Any) -> Job:
    data = content.encode() if isinstance(content, str) else content
    return finished(service, ANONYMOUS, service.import_file(ANONYMOUS, "a", name, io.BytesIO(data), **options))


@pytest.mark.parametrize(
    ("name", "content", "pairs"),
    [
        ("a.tsv", ROWS, 20),
        ("a.tsv.gz", gzip.compress(ROWS.encode()), 20),
        ("a.tmx", TMX, 1),
        ("a.po", PO, 1),
        ("a.csv", "source,target\ndie pumpe,the pump\n", 1),
        ("a.jsonl", '{"source": "die pumpe", "target": "the pump"}\n', 1),
    ],
)
def test_files_of_all_formats_are_imported(filled: Service, name: str, content: str | bytes, pairs: int) -> None:
    job = imported(filled, name, content)
    assert (job.state, job.result["pairs"], job.result["added"]) == ("done", pairs, pairs)
    assert filled.memory_info(ANONYMOUS, "a").pairs == pairs
    assert [path.name for path in filled.jobs.folder_of(job.id).iterdir()] == ["job.json"]


def test_the_format_and_the_languages_can_be_given(filled: Service) -> None:
    assert imported(filled, "export", ROWS, format="tsv").state == "done"
    english = PO.replace("die pumpe", "a motor").replace("the pump", "ein motor")
    job = imported(filled, "b.po", english, source_lang="en", target_lang="de")
    assert (job.state, filled.pairs(ANONYMOUS, "a", "motor").pairs[0].source) == ("done", "ein motor")


def test_pairs_are_added_to_those_that_are_there(filled: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "_BLOCK", 7)
    filled.add_pairs(ANONYMOUS, "a", [Pair("die welle .", "the shaft .")])
    assert imported(filled, "a.tsv", ROWS).result["added"] == 20
    assert imported(filled, "a.tsv", ROWS + "neu .\tnew .\n").result["added"] == 1
    assert filled.memory_info(ANONYMOUS, "a").pairs == 22


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a.tmx", "<tmx>", "no pairs"),
        ("a.tsv", "only one column\n", "no pairs"),
        ("a.po", PO.replace('"the pump"', '""'), "untranslated"),
        ("a.tsv.gz", "no gzip", "no pairs"),
        ("a.xlsx", "no zip", "no pairs"),
    ],
)
def test_a_file_without_pairs_fails_and_says_why(filled: Service, name: str, content: str, told: str) -> None:
    job = imported(filled, name, content)
    assert job.state == "failed"
    assert told in job.message
    assert str(filled.memories.folder) not in job.message
    assert [path.name for path in filled.jobs.folder_of(job.id).iterdir()] == ["job.json"]


def test_what_is_left_out_is_told(filled: Service) -> None:
    job = imported(filled, "a.po", PO)
    assert job.result["skipped"] == {"fuzzy": 1}
    job = imported(filled, "b.tsv", "a b\tc\nonly one\n")
    assert (job.result["problem_count"], "b.tsv, line 2" in job.result["problems"][0]) == (1, True)


@pytest.mark.parametrize(
    ("name", "options", "told"),
    [("a.exe", {}, "unknown format"), ("noname", {}, "unknown format"), ("a.tsv", {"format": "tms"}, "did you mean")],
)
def test_unknown_formats_are_refused_at_once(filled: Service, name: str, options: dict[str, str], told: str) -> None:
    with pytest.raises(InputError, match=told):
        filled.import_file(ANONYMOUS, "a", name, io.BytesIO(b"x"), **options)
    assert filled.jobs.all(ANONYMOUS) == []


def test_large_files_are_refused_and_leave_nothing(tiny: TranslationModel, tmp_path: Path) -> None:
    filled = Service(ServeConfig(memories=str(tmp_path / "memories"), max_upload=1), Models([tiny]))
    filled.create_memory(ANONYMOUS, "a")
    with pytest.raises(TooLarge):
        filled.import_file(ANONYMOUS, "a", "a.tsv", io.BytesIO(b"x" * ((1 << 20) + 1)))
    filled.close()
    assert list(filled.jobs.files.folder.iterdir()) == []


def test_a_memory_that_does_not_exist_takes_no_file(filled: Service) -> None:
    with pytest.raises(NotFound):
        filled.import_file(ANONYMOUS, "none", "a.tsv", io.BytesIO(b"x"))


class Gate:
    """Lets an import go on until some pairs are encoded, and stops it there."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, builds: bool = True) -> None:
        least = 0 if builds else 5  # a small memory is built at once
        self.reached, self.let_go = threading.Event(), threading.Event()
        check = JobRun.check

        def held(run: JobRun) -> None:
            if run.job.total and run.job.done >= least:
                self.reached.set()
                assert self.let_go.wait(30)
            check(run)

        monkeypatch.setattr(JobRun, "check", held)


@pytest.fixture
def restart(tiny: TranslationModel, tmp_path: Path) -> Iterator[Callable[[], Service]]:
    made = list[Service]()

    def begin() -> Service:
        made.append(Service(ServeConfig(memories=str(tmp_path / "memories")), Models([tiny])))
        return made[-1]

    yield begin
    for service in made:
        service.close()


@pytest.mark.parametrize("first", [[], [Pair("die welle .", "the shaft .")]])
def test_an_import_goes_on_after_a_restart(
    restart: Callable[[], Service], monkeypatch: pytest.MonkeyPatch, first: list[Pair]
) -> None:
    """Into an empty memory, which is built, and into one that has pairs."""
    monkeypatch.setattr(importing, "_BLOCK", 5)
    before = restart()
    before.create_memory(ANONYMOUS, "a")
    if first:
        before.add_pairs(ANONYMOUS, "a", first)
    with monkeypatch.context() as patch:
        gate = Gate(patch)
        job = before.import_file(ANONYMOUS, "a", "a.tsv", io.BytesIO(ROWS.encode()))
        assert gate.reached.wait(30)
        before.jobs.stop()
        gate.let_go.set()
        before.close()
    assert before.jobs.get(ANONYMOUS, job.id).state == "running"
    after = restart()
    assert finished(after, ANONYMOUS, job).state == "done"
    assert after.memory_info(ANONYMOUS, "a").pairs == 20 + len(first)


@pytest.mark.parametrize("first", [[], [Pair("die welle .", "the shaft .")]])
def test_a_cancelled_import_leaves_no_upload(
    filled: Service, monkeypatch: pytest.MonkeyPatch, first: list[Pair]
) -> None:
    monkeypatch.setattr(importing, "_BLOCK", 5)
    if first:
        filled.add_pairs(ANONYMOUS, "a", first)
    gate = Gate(monkeypatch, builds=not first)
    job = filled.import_file(ANONYMOUS, "a", "a.tsv", io.BytesIO(ROWS.encode()))
    assert gate.reached.wait(30)
    filled.jobs.cancel(ANONYMOUS, job.id)
    gate.let_go.set()
    assert finished(filled, ANONYMOUS, job).state == "cancelled"
    assert [path.name for path in filled.jobs.folder_of(job.id).iterdir()] == ["job.json"]
    assert not (filled.memories.folder / "a" / "building").exists()


def test_a_memory_is_deleted_while_it_is_imported_into(filled: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch)
    job = filled.import_file(ANONYMOUS, "a", "a.tsv", io.BytesIO(ROWS.encode()))
    assert gate.reached.wait(30)
    deleting = threading.Thread(target=filled.delete_memory, args=(ANONYMOUS, "a"))
    deleting.start()
    while not filled.jobs._known[job.id].cancelled.is_set():
        pass
    gate.let_go.set()
    deleting.join(30)
    assert finished(filled, ANONYMOUS, job).state == "cancelled"
    assert filled.memory_infos(ANONYMOUS) == []


def test_a_damaged_memory_is_found(filled: Service) -> None:
    imported(filled, "a.tsv", ROWS)
    key = next((filled.memories.folder / "a").glob("segment-*/key.f16"))
    data = bytearray(key.read_bytes())
    data[7] ^= 1
    key.write_bytes(data)
    job = finished(filled, ANONYMOUS, filled.verify(ANONYMOUS, "a"))
    assert (job.state, job.result["damaged"]) == ("done", 1)
