"""Ids of units: stable when a translation is corrected, and unique."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polib
import pytest

from nearmt.corpus import read_pairs

PO = 'msgid ""\nmsgstr "Language: en\\n"\n\n'


def po(*entries: str) -> str:
    return PO + "\n".join(entries)


def one(target: str) -> str:
    return f'msgid "Pumpe"\nmsgstr "{target}"\n'


def in_context(target: str) -> str:
    return f'msgctxt "menu"\n{one(target)}'


def counted(target: str) -> str:
    return f'msgid "Ventil"\nmsgid_plural "Ventile"\nmsgstr[0] "{target}"\nmsgstr[1] "{target}s"\n'


def catalogue(target: str) -> str:
    return po(one(target), in_context(target), counted(target))


def xliff_1(target: str) -> str:
    units = f'<trans-unit id="1"><source>Pumpe</source><target>{target}</target></trans-unit>'
    files = "".join(
        f'<file original="{name}" source-language="de" target-language="en"><body>{units}</body></file>'
        for name in ("a.html", "b.html")
    )
    return f'<xliff version="1.2">{files}</xliff>'


def xliff_2(target: str) -> str:
    segment = f"<segment><source>Pumpe</source><target>{target}</target></segment>"
    named = segment.replace("<segment>", '<segment id="2">')
    return (
        '<xliff version="2.0" srcLang="de" trgLang="en"><file id="f">'
        f'<unit id="1">{named}{segment}{segment}</unit><unit id="2">{segment}</unit></file></xliff>'
    )


def tmx(target: str) -> str:
    sides = f'<tuv xml:lang="de"><seg>Pumpe</seg></tuv><tuv xml:lang="en"><seg>{target}</seg></tuv>'
    return f'<tmx><header srclang="de"/><body><tu tuid="1">{sides}</tu><tu tuid="2">{sides}</tu></body></tmx>'


def jsonl(target: str) -> str:
    return "".join(f'{{"id": "{name}", "source": "Pumpe", "target": "{target}"}}\n' for name in "ab")


MADE: dict[str, tuple[Callable[[str], str], int]] = {
    "a.po": (catalogue, 4),
    "a.mo": (catalogue, 4),
    "1.xliff": (xliff_1, 2),
    "2.xliff": (xliff_2, 4),
    "a.tmx": (tmx, 2),
    "a.jsonl": (jsonl, 2),
}


def ids(path: Path) -> list[str]:
    return [pair.id for pair in read_pairs(path, source_lang="de", target_lang="en")]


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    if path.suffix == ".mo":
        polib.pofile(text).save_as_mofile(str(path))
    else:
        path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", MADE)
def test_corrected_translation_keeps_its_id(name: str, tmp_path: Path) -> None:
    make, count = MADE[name]
    before = ids(write(tmp_path / name, make("pump")))
    assert ids(write(tmp_path / name, make("compressor"))) == before
    assert len(set(before)) == len(before) == count


def test_id_of_an_entry_depends_on_context_and_msgid_only(tmp_path: Path) -> None:
    (first, *_) = ids(write(tmp_path / "a.po", catalogue("pump")))
    moved = po("#: b.c:7\n#. A comment.\n" + one("pump").replace('msgid "Pumpe"', 'msgid ""\n"Pum"\n"pe"'))
    assert ids(write(tmp_path / "a.po", po(counted("valve")) + "\n" + moved.removeprefix(PO)))[-1] == first
    assert first not in ids(write(tmp_path / "b.po", catalogue("pump")))


def test_singular_and_plural_have_different_ids(tmp_path: Path) -> None:
    singular, plural = ids(write(tmp_path / "a.po", po(counted("valve"))))
    assert plural == f"{singular}:plural" and singular.startswith("a.po:")
    # A language with one form has only the plural.
    one_form = 'msgid "Ventil"\nmsgid_plural "Ventile"\nmsgstr[0] "valve"\n'
    assert ids(write(tmp_path / "a.po", po(one_form))) == [plural]


@pytest.mark.parametrize("name", ["a.po", "a.tmx", "1.xliff"])
def test_ids_of_files_with_equal_names_contain_their_folders(name: str, tmp_path: Path) -> None:
    make, count = MADE[name]
    for folder in ("one", "two"):
        write(tmp_path / folder / name, make(folder))
    write(tmp_path / "one" / f"other-{name}", make("other"))
    stream = list(read_pairs(tmp_path, source_lang="de", target_lang="en"))
    assert len({pair.id for pair in stream}) == 3 * count
    names = {pair.id.split(":")[0] for pair in stream}
    assert names == {f"one/{name}", f"two/{name}", f"other-{name}"}
    assert {pair.origin for pair in stream} == {name, f"other-{name}"}
