"""The inputs of an experiment, and the signatures of its artefacts, which need nothing to be loaded."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from nearmt import __version__
from nearmt.datastore import StoreConfig
from nearmt.decoding import BeamConfig
from nearmt.models import ModelConfig, resolve_device
from nearmt.research.experiments.config import ExperimentConfig
from nearmt.research.experiments.data import GENERAL, Domain, domain_of
from nearmt.research.experiments.rows import Row
from nearmt.research.training.adaptive import AdaptiveConfig
from nearmt.research.training.loop import FinetuneConfig

#: The paper's fine-tuning settings by domain; other domains get its most frequent choice.
PAPER_FINE_TUNING: dict[str, dict[str, Any]] = {
    "medical": {"learning-rate": 1e-5, "schedule": "plateau", "warmup": False},
    "koran": {"learning-rate": 5e-5, "schedule": "inverse-sqrt", "warmup": False},
}
_USUAL_FINE_TUNING = {"learning-rate": 5e-5, "schedule": "inverse-sqrt", "warmup": True}


@dataclass(frozen=True)
class Setup:
    """The inputs of an experiment. Each signature identifies all inputs of an artefact."""

    data: Path
    out: Path
    config: ExperimentConfig
    model: ModelConfig
    store: StoreConfig
    beam: BeamConfig

    @property
    def device(self) -> str:
        return resolve_device(self.model.device)

    @cached_property
    def general(self) -> Domain:
        """The folder of general text."""
        return domain_of(self.data / GENERAL, self.model)

    def model_of(self, domain: Domain) -> ModelConfig:
        """Return the model's configuration with the languages of the domain."""
        return dataclasses.replace(self.model, source_lang=domain.source_lang, target_lang=domain.target_lang)

    def fine_tuning(self, domain: Domain) -> FinetuneConfig:
        chosen = PAPER_FINE_TUNING.get(domain.name, _USUAL_FINE_TUNING)
        config = self.config
        limits = {
            "epochs": config.fine_tune_epochs,
            "batch-tokens": config.fine_tune_batch_tokens,
            "dev-limit": config.dev_limit,
        }
        return FinetuneConfig.from_mapping({**chosen, **limits})

    def adaptive(self, row: Row) -> AdaptiveConfig:
        return AdaptiveConfig(updates=self.config.adaptive_updates, network=row.network)

    def model_signature(self, domain: Domain) -> str:
        config, folder, content = self.model_of(domain), Path(self.model.model), ""
        if folder.is_dir():  # identify a folder by its content, not its path
            files = sorted(path for path in folder.iterdir() if path.is_file())
            content = short("".join(f"{path.name}:{path.stat().st_size}|" for path in files))
            config = dataclasses.replace(config, model=folder.name)
        config = dataclasses.replace(config, device=self.device.split(":")[0])
        return f"nearmt:{__version__}|{config.signature()}|files:{content}"

    def store_signature(self, domain: Domain) -> str:
        return f"{self.model_signature(domain)}|train:{domain.digest('train')}"

    def finetuned_signature(self, domain: Domain) -> str:
        how = f"fine-tune:{self.config.fine_tune}|{self.fine_tuning(domain).signature()}"
        return f"{self.store_signature(domain)}|dev:{domain.digest('dev')}|{how}"

    def row_signature(self, domain: Domain, row: Row) -> str:
        """Identify the system of a row."""
        settings = json.dumps(row.settings, sort_keys=True)
        parts = [self.model_signature(domain), f"method:{row.method}", f"settings:{settings}"]
        if row.fine_tuned:
            parts.append(self.finetuned_signature(domain))
        if row.method != "plain":
            parts += [f"train:{domain.digest('train')}", f"pruned:{row.pruned}", self.store.signature()]
        if row.tunable:
            parts.append(self._tuning_signature(domain))
        if row.adaptive:
            parts += [
                f"dev:{domain.digest('dev')}",
                f"general:{self.general.digest('dev')}",
                self.adaptive(row).signature(),
            ]
        return "|".join(parts)

    def _tuning_signature(self, domain: Domain) -> str:
        config = self.config
        if config.tune == "none":
            return "tune:none"
        dev = domain.digest("dev", config.dev_limit)
        how = f"tune:{config.tune}|budget:{config.tune_budget}|dev:{dev}"
        return f"{how}|batch:{config.batch_size}|{self.beam.signature()}"

    def public(self, value: Any) -> Any:
        """Replace this machine's paths by OUT and DATA, for files that are shared."""
        if isinstance(value, str | Path):
            return str(value).replace(str(self.out), "OUT").replace(str(self.data), "DATA")
        if isinstance(value, Mapping):
            return {key: self.public(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.public(item) for item in value]
        return value


def short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]
