"""Translate catalogues of other projects with nearmt, and have other programs check what must stay.

    python benchmarks/german_catalogues.py CATALOGUES
    python benchmarks/catalogues_check.py CATALOGUES --pofilter ENV/bin/pofilter --out OUT/catalogues-check.json

All strings with protected spans or accelerators become PO catalogues, one of each package, which are filled in from
German to English as `nearmt translate` does; then `msgfmt -c -f`, translate-toolkit's `pofilter` (in an environment of
its own: nearmt does not depend on it) and nearmt's own search for spans compare them. Strings in which these programs
find an error in the original English text as well are counted apart. XLIFF with inline tags alone, paired, nested and
adjacent (`benchmarks/tagged_xliff.py`) is made of other strings, and checked with `xmllint` and by counting.

`--pairs N` makes a memory of N strings that are not in these catalogues.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import tempfile
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import polib
from german_catalogues import String, read_strings
from tagged_xliff import SHAPES, check_xliff, write_xliff

from nearmt.contracts import Pair
from nearmt.corpus.accelerators import remove_accelerator
from nearmt.corpus.spans import find_spans
from nearmt.datastore import Datastore
from nearmt.datastore.disk.files import write_json
from nearmt.documents import fill_document
from nearmt.documents.placeholders import lost, without_placeholders
from nearmt.models import ModelConfig, load_model
from nearmt.research.bench.quality import bleu
from nearmt.research.bench.report import make_report
from nearmt.research.bench.tables import markdown
from nearmt.translator import Translator

#: pofilter's tests, and the style of user interface that says what variables and accelerators look like.
FILTERS = (
    ("", ("printf", "pythonbraceformat", "xmltags", "urls", "emails")),
    ("--kde", ("accelerators", "variables")),
    ("--gnome", ("accelerators", "variables")),
    ("--mozilla", ("variables",)),
    ("--openoffice", ("variables",)),
)
_PUT_BACK = "put back by alignment"
_HEADER = {
    "Project-Id-Version": "check",
    "POT-Creation-Date": "2026-01-01 00:00+0000",
    "PO-Revision-Date": "2026-01-01 00:00+0000",
    "Last-Translator": "nobody <nobody@example.com>",
    "Language-Team": "none",
    "Language": "en",
    "X-Source-Language": "de",
    "MIME-Version": "1.0",
    "Content-Type": "text/plain; charset=UTF-8",
    "Content-Transfer-Encoding": "8bit",
    "Plural-Forms": "nplurals=2; plural=(n != 1);",
}
_AT_LINE = re.compile(r"^[^:\n]+:(\d+):", re.MULTILINE)


@dataclass(frozen=True)
class Checked:
    """What the programs found in a catalogue: the entries, by check."""

    failed: dict[str, set[str]]

    def names(self) -> Counter[str]:
        return Counter({check: len(entries) for check, entries in self.failed.items()})


def is_due(string: String) -> bool:
    """Whether a string has text, and something in it that must stay."""
    words = any(any(map(str.isalpha, without_placeholders(text))) for text in string.texts)
    return words and any(find_spans(text) or remove_accelerator(text)[1] for text in string.texts)


def entry_of(string: String, *, translated: bool) -> polib.POEntry:
    given: dict[str, Any] = {"msgid": string.source, "flags": list(string.flags)}
    if string.context:
        given["msgctxt"] = string.context
    if string.plural_source:
        forms = (string.reference, string.plural_reference) if translated else ("", "")
        given |= {"msgid_plural": string.plural_source, "msgstr_plural": dict(enumerate(forms))}
    else:
        given["msgstr"] = string.reference if translated else ""
    return polib.POEntry(**given)


def write_po(path: Path, strings: Iterable[String], *, translated: bool) -> None:
    catalogue = polib.POFile()
    catalogue.metadata = dict(_HEADER)
    catalogue.extend(entry_of(string, translated=translated) for string in strings)
    catalogue.save(str(path))


def checked(path: Path, pofilter: str | None) -> Checked:
    """Run all checks on a catalogue."""
    failed: dict[str, set[str]] = defaultdict(set)
    entries = polib.pofile(str(path))
    failed["msgfmt -c -f"] = _msgfmt(path, list(entries))
    for entry in entries:
        if any(lost((source,), (target,), _printf(entry)) for source, target in _sides(entry)):
            failed["own search"].add(entry.msgid)
    for style, tests in FILTERS if pofilter else ():
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "found.po"
            command = [str(pofilter), "--progress=none", *filter(None, [style]), *(f"--test={test}" for test in tests)]
            subprocess.run([*command, str(path), str(out)], check=True, capture_output=True)
            for entry in polib.pofile(str(out)) if out.exists() else ():
                for test in tests:
                    if f"(pofilter) {test}" in entry.tcomment:
                        failed[f"pofilter {style} {test}".replace("  ", " ")].add(entry.msgid)
    return Checked(dict(failed))


def _msgfmt(path: Path, entries: Sequence[polib.POEntry]) -> set[str]:
    """The entries about which msgfmt says something."""
    done = subprocess.run(
        ["msgfmt", "-c", "-f", "-o", "/dev/null", str(path)],
        check=False,
        capture_output=True,
        text=True,
        env={"LC_ALL": "C.UTF-8", "PATH": "/usr/local/bin:/usr/bin:/bin"},
    )
    lines = [int(found[1]) for found in _AT_LINE.finditer(done.stderr)]
    if done.returncode and not lines:
        raise SystemExit(f"msgfmt: {done.stderr}")
    starts = [entry.linenum or 0 for entry in entries]
    return {entries[bisect_right(starts, line) - 1].msgid for line in lines}


def _printf(entry: polib.POEntry) -> bool | None:
    return True if any(flag in ("c-format", "python-format") for flag in entry.flags) else None


def _sides(entry: polib.POEntry) -> list[tuple[str, str]]:
    if entry.msgid_plural:
        return [(entry.msgid, entry.msgstr_plural[0]), (entry.msgid_plural, entry.msgstr_plural[1])]
    return [(entry.msgid, entry.msgstr)]


def po_cells(
    strings: Sequence[String], folder: Path, translator: Translator, pofilter: str | None, show: bool
) -> tuple[list[dict[str, Any]], float]:
    """Fill in a catalogue of each package; what the checks find, and BLEU of all."""
    packages: dict[str, list[String]] = defaultdict(list)
    for string in strings:
        packages[string.package].append(string)
    units, put_back = 0, 0
    found, original, ours = Counter[str](), Counter[str](), Counter[str]()
    texts, references = list[str](), list[str]()
    for package, group in packages.items():
        source, target, reference = (folder / f"{package}.{kind}.po" for kind in ("de", "out", "en"))
        write_po(source, group, translated=False)
        write_po(reference, group, translated=True)
        fill_document(source, target, translator)
        put_back += sum(_PUT_BACK in entry.tcomment for entry in polib.pofile(str(target)))
        after, before = checked(target, pofilter), checked(reference, pofilter)
        units += sum(len(string.texts) for string in group)
        for check, entries in after.failed.items():
            only = entries - before.failed.get(check, set())
            found[check] += len(entries)
            ours[check] += len(only)
            for msgid in sorted(only) if show else ():
                print(f"{package} {check}\n  {msgid}\n  {dict(_by_id(target)).get(msgid)}")
        original += before.names()
        for mine, right in zip(polib.pofile(str(target)), polib.pofile(str(reference)), strict=True):
            texts += [after_text for _, after_text in _sides(mine)]
            references += [text for _, text in _sides(right)]
    names = ["msgfmt -c -f", "own search"]
    names += [f"pofilter {style} {test}".replace("  ", " ") for style, tests in FILTERS for test in tests if pofilter]
    cells = [
        {"check": name, "units": units, "found": found[name], "ours": ours[name], "original": original[name]}
        for name in names
    ]
    return [*cells, {"check": _PUT_BACK, "units": units, "ours": put_back}], bleu(texts, references)


def _by_id(path: Path) -> list[tuple[str, list[tuple[str, str]]]]:
    return [(entry.msgid, _sides(entry)) for entry in polib.pofile(str(path))]


def memory_of(strings: Sequence[String], count: int, translator: Translator, folder: Path) -> Translator:
    """A memory of strings that were not taken for the catalogues."""
    chosen = Random(0).sample(list(strings), min(count, len(strings)))
    pairs = [Pair(string.source, string.reference) for string in chosen]
    return translator.with_datastore(Datastore.build(folder / "memory", pairs, translator.model))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("catalogues", type=Path, help="folder of german_catalogues.py")
    parser.add_argument("--pofilter", help="the program, in an environment of its own")
    parser.add_argument("--pairs", type=int, default=0, help="strings of the memory; 0: the model alone")
    parser.add_argument("--limit", type=int, help="most strings, evenly spread")
    parser.add_argument("--tagged", type=int, default=1000, help="XLIFF units with tags, of each version")
    parser.add_argument("--work", type=Path, help="keep the files here")
    parser.add_argument("--show", action="store_true", help="print strings in which something was found")
    parser.add_argument("--precision", default="int8")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    strings = read_strings(given.catalogues)
    due = [string for string in strings if is_due(string)]
    others = [string for string in strings if not is_due(string)]
    step = max(1.0, len(due) / given.limit) if given.limit else 1.0
    due = [due[int(number * step)] for number in range(int(len(due) / step))]
    config = ModelConfig(precision=given.precision, device=given.device)
    translator = Translator(load_model(config))
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.work or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if given.pairs:
            translator = memory_of(others, given.pairs, translator, folder)
        cells, score = po_cells(due, folder, translator, given.pofilter, given.show)
        texts = [string.source for string in others]
        for version in ("1.2", "2.0"):
            path, out = folder / f"tags-{version}.xlf", folder / f"tags-{version}.out.xlf"
            write_xliff(path, texts, version, given.tagged)
            fill_document(path, out, translator)
            cells += check_xliff(path, out, version, show=given.show)
    data = f"{len(due):,} strings of {len({string.package for string in due})} packages, XLIFF of {len(SHAPES)} shapes"
    report = make_report("catalogues-check", config, data, cells, signature=translator.signature(), bleu=score)
    if given.out:
        write_json(given.out, report)
    print(markdown(report))
    print(f"\nBLEU {score:.2f}")


if __name__ == "__main__":
    main()
