"""Contrast: a memory has a pair, and a sentence that differs from it in a word or two is translated.

A system that copies the stored words gets the sentence wrong. The pairs of all groups are stored together with the
pairs of a memory, once or with ten variants of each. Terminology measures the opposite: stored terms should be copied.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nearmt.config import read_toml, unknown_setting
from nearmt.errors import ConfigError, did_you_mean
from nearmt.methods import METHOD_CONFIGS, METHODS, PRESETS
from nearmt.research.experiments.cells import Cell, write_lines
from nearmt.research.experiments.config import ExperimentConfig
from nearmt.research.experiments.contrast_running import BASE, Contrasting
from nearmt.research.experiments.rows import Experiment, Row

if TYPE_CHECKING:
    from nearmt.research.experiments.artefacts import Artefacts

#: Ends the name of rows whose memory also has the variants.
_TEN = "-ten"
_METRICS = ("right", "kept", "terms")
_FAILURES = "contrast.failures.jsonl"


@dataclass(frozen=True)
class Contrast(Experiment):
    """Rows are systems, with `-ten` if the variants of each stored pair are in the memory as well."""

    def chosen(self, config: ExperimentConfig) -> list[Row]:
        """Return the rows that the options select, and always the model alone, which the others are compared with."""
        known = {row.name: row for row in self.rows}
        for path in config.system_files:
            for row in _with_and_without_variants(read_system(path)):
                if row.name in known:
                    raise ConfigError(f"systems: {path}: a row is called '{row.name}' already; rename the file")
                known[row.name] = row
        for name in config.row_names:
            if name not in known:
                raise ConfigError(
                    f"rows: {self.name} has no row '{name}'{did_you_mean(name, known)}; it has {', '.join(known)}"
                )
        return [row for row in known.values() if not config.row_names or row.name in (BASE, *config.row_names)]

    def among(self, names: Iterable[str]) -> list[Row]:
        """Return the rows with these names; rows of files, which are not known here, are last."""
        wanted = set(names)
        known = super().among(wanted)
        others = sorted(wanted - {row.name for row in known})
        return known + [Row(name, _label(name.removesuffix(_TEN), name.endswith(_TEN))) for name in others]


def make_contrast(base: Row, *retrieving: Row) -> Contrast:
    rows = [base]
    for row in retrieving:
        rows += _with_and_without_variants(dataclasses.replace(row, tune=False))
    return Contrast(
        "contrast",
        "Contrast",
        tuple(rows),
        _METRICS,
        reference=BASE,
        runs_with_all=False,
        write=write_failures,
        procedure=Contrasting(),
    )


def _with_and_without_variants(row: Row) -> list[Row]:
    if row.method == "plain":
        return [row]
    return [row, dataclasses.replace(row, name=row.name + _TEN, label=_label(row.label, True), variants=True)]


def _label(label: str, variants: bool) -> str:
    return f"{label}, ten variants" if variants else label


def read_system(path: Path) -> Row:
    """Make a row of a TOML file with method, preset and settings of the method; its name is that of the file."""
    if not re.fullmatch(r"[\w-]+", path.stem):
        raise ConfigError(f"systems: {path}: only letters, digits, - and _ are allowed in the name of a row")
    found = read_toml(path)
    found.pop("tuning", None)  # notes of `nearmt tune`
    method, preset = found.pop("method", "chunk"), found.pop("preset", None)
    if method not in METHODS or method == "plain":
        names = ", ".join(name for name in METHODS if name != "plain")
        raise ConfigError(f"{path}: method = {method!r}: must be one of {names}")
    if preset is not None and (preset not in PRESETS or method != "chunk"):
        raise ConfigError(f"{path}: preset = {preset!r}: must be one of {', '.join(PRESETS)}, with method chunk")
    known = METHOD_CONFIGS[method].public_fields()
    for name in found:
        if name not in known:
            raise ConfigError(f"{path}: {unknown_setting(name, known)}")
    settings = {**(PRESETS[preset] if preset else {}), **found}
    try:
        METHOD_CONFIGS[method].from_mapping(settings)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
    return Row(path.stem, path.stem, method, settings, tune=False)


def write_failures(artefacts: Artefacts, experiment: Experiment, cells: list[Cell]) -> list[str]:
    """Write the wrong translations of all rows, as JSON lines."""
    lines = []
    for cell in cells:
        stored = artefacts.results.cell(cell.experiment, cell.domain, cell.row)
        if stored is None:
            continue
        sides = [artefacts.results.test_lines(cell.test, side) for side in ("source", "reference")]
        texts = artefacts.results.translations(cell)
        # Rows with variants have no terminology, which comes last: the sides are longer.
        for ask, source, target, text in zip(stored.evaluation["asks"], *sides, texts, strict=False):
            if not ask["right"]:
                about = {"memory": cell.domain, "row": cell.row, "id": ask["id"], "kind": ask["kind"]}
                found = {**about, "copied": ask["copied"], "source": source, "stored": target, "output": text}
                lines.append(json.dumps(found, ensure_ascii=False))
    write_lines(artefacts.setup.out / _FAILURES, lines)
    return [_FAILURES]
