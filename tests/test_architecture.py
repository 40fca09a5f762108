"""ARCHITECTURE.md names modules that exist, and a core that can be read in an afternoon."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
SOURCES = ROOT / "src" / "nearmt"


def section(title: str) -> str:
    found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL)
    assert found is not None, title
    return found[1]


def test_the_core_is_sixty_modules_that_exist() -> None:
    modules = re.findall(r"`([\w/]+\.py)`", section("Reading order"))
    assert len(modules) == len(set(modules)) == 60
    assert [name for name in modules if not (SOURCES / name).is_file()] == []


def test_every_package_is_in_the_table() -> None:
    named = set(re.findall(r"`(\w+)`", section("Packages")))
    packages = {path.stem for path in SOURCES.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
    assert packages - named == {"__init__", "__main__", "demo"}


def test_files_named_in_tables_exist() -> None:
    files = re.findall(r"`(\w+/[\w/]+\.py)`", section("Packages"))
    assert files and [name for name in files if not (SOURCES / name).is_file()] == []


def test_every_engine_has_the_files_of_its_operations() -> None:
    rows = [row.split("|")[1:-1] for row in section("Engines").splitlines() if row.startswith("| ")][1:]
    for _, _, *engines in rows:
        for engine, cell in zip(("reference", "cpu", "cuda"), engines, strict=True):
            for name in re.findall(r"`(\w+\.\w+)`", cell):
                assert (SOURCES / "engines" / engine / name).is_file(), (engine, name)
