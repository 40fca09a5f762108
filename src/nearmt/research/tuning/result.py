"""The outcome of tuning, and the configuration file that it becomes."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearmt.corpus.encoding import Encoding
from nearmt.corpus.output import open_file
from nearmt.research.tuning.search import Trial


@dataclass(frozen=True)
class Tuned:
    """The best settings found for a method, and how they compare."""

    method: str
    #: By public names: those that were tuned, and those that were fixed.
    settings: dict[str, Any]
    metric: str
    score: float
    default_score: float
    base_score: float | None  # of the model alone
    sentences: int
    held_out: bool  # whether the dev set is a part of the memory itself
    #: Translations of the dev set that the search was worth, in all.
    spent: float
    signature: str
    metric_signature: str
    trials: tuple[Trial, ...]

    def facts(self) -> dict[str, Any]:
        """What there is to know of the run, for people and for JSON."""
        return {
            "metric": self.metric,
            "score": self.score,
            "default-score": self.default_score,
            **({} if self.base_score is None else {"base-score": self.base_score}),
            "sentences": self.sentences,
            "dev-set": "held out of the memory" if self.held_out else "given",
            "spent": round(self.spent, 2),
            "signature": self.signature,
            "metric-signature": self.metric_signature,
            "date": datetime.date.today().isoformat(),
        }


def write_config(path: Path, tuned: Tuned, search: Mapping[str, Any] | None = None) -> None:
    """Write the settings as `--config` takes them. `search`: settings of the search that they were tuned for."""
    lines = [f"{name} = {_toml(value)}" for name, value in {"method": tuned.method, **tuned.settings}.items()]
    lines += [f"{name} = {_toml(value)}" for name, value in (search or {}).items() if value is not None]
    lines += ["", "[tuning]", *(f"{name} = {_toml(value)}" for name, value in tuned.facts().items())]
    with open_file(path, Encoding()) as file:
        file.writelines(line + "\n" for line in lines)


def _toml(value: Any) -> str:
    """A value as TOML writes it; its basic strings are those of JSON, but for one character."""
    if isinstance(value, bool | str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)
