"""The result of tuning, and its configuration file."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearmt.corpus.encoding import Encoding
from nearmt.corpus.output import open_file
from nearmt.research.tuning.trials import Trial


@dataclass(frozen=True)
class Tuned:
    """The best settings found for a method, and their scores."""

    method: str
    #: Tuned and fixed settings by public name.
    settings: dict[str, Any]
    metric: str
    score: float
    default_score: float
    base_score: float | None  # of the model alone
    sentences: int
    held_out: bool  # whether the dev set was held out of the datastore
    #: Cost of all trials; 1 is one translation of the dev set.
    spent: float
    signature: str
    metric_signature: str
    trials: tuple[Trial, ...]

    def facts(self) -> dict[str, Any]:
        """Summarise the run for the configuration file and for JSON."""
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


def write_config(path: Path, tuned: Tuned, beam: Mapping[str, Any] | None = None) -> None:
    """Write the settings as a file for `--config`, with the settings of the beam that they were tuned for."""
    lines = [f"{name} = {_toml(value)}" for name, value in {"method": tuned.method, **tuned.settings}.items()]
    lines += [f"{name} = {_toml(value)}" for name, value in (beam or {}).items() if value is not None]
    lines += ["", "[tuning]", *(f"{name} = {_toml(value)}" for name, value in tuned.facts().items())]
    with open_file(path, Encoding()) as file:
        file.writelines(line + "\n" for line in lines)


def _toml(value: Any) -> str:
    """Format a value for TOML, whose basic strings equal those of JSON except for one character."""
    if isinstance(value, bool | str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)
