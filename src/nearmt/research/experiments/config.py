"""The options of an experiment."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nearmt.config import Config, option
from nearmt.errors import ConfigError

#: How the settings of each row are chosen.
TUNINGS = ("none", "smart", "grid")
#: How the settings of fine-tuning are chosen.
FINE_TUNINGS = ("paper", "grid", "none")
#: The files of a domain, by what they are for.
PARTS = ("train", "dev", "test")

#: The halves of the items of contrast: to develop with, to measure with once, both.
HALVES = ("open", "held", "all")


@dataclass(frozen=True)
class ExperimentConfig(Config):
    """What an experiment measures, and how."""

    domains: str | None = option(None, "folders of the data, joined by commas (default: all that have train and test)")
    rows: str | None = option(None, "rows of the table, joined by commas (default: all)")
    limit: int | None = option(None, "use only the first lines of a test set", low=1)
    tune: str = option("smart", "how each row is tuned on the dev set: not, by trials, over a grid", choices=TUNINGS)
    tune_budget: int = option(36, "translations of the dev set that tuning a row may take", low=1)
    dev_limit: int = option(500, "dev lines used for tuning and for choosing a fine-tuned model", low=1)
    batch_size: int = option(8, "sentences translated together", low=1)
    tune_batch_size: int | None = option(
        None,
        "the same for tuning, if results do not depend on it (default: 64 on a GPU, else --batch-size)",
        low=1,
    )
    fine_tune: str = option(
        "paper", "how to fine-tune: with the paper's settings, its grid, or not", choices=FINE_TUNINGS
    )
    fine_tune_epochs: int = option(20, "most epochs of fine-tuning", low=1)
    fine_tune_batch_tokens: int = option(8192, "source and target tokens of a batch of fine-tuning", low=1)
    adaptive_updates: int = option(5000, "most updates of an adaptive network", low=1)
    comet: str | None = option(None, "also score with COMET: the path of its comet-score")
    examples: int = option(5, "sentences shown by the experiment examples", low=1)
    stream: str = option("train", "files of a domain that form its stream (on-the-fly), joined by commas")
    at_hand: float = option(0.1, "share of a stream that is known from the start", low=0, high=0.99)
    learn_every: int = option(250, "sentences translated before they are added to the memory", low=1)
    window: int = option(1000, "sentences of a stream that are scored together", low=1)
    items: str | None = option(None, "folder of items for contrast (default: benchmarks/contrast of a clone)")
    half: str = option("open", "items of contrast: to develop with, held out, or both", choices=HALVES)
    memory_limit: int | None = option(None, "use only the first pairs of a memory (contrast)", low=1)
    systems: str | None = option(None, "TOML files of further rows of contrast, joined by commas")
    side_by_side: bool = option(False, "other programs run on this machine: do not report speeds")
    commit: str | None = option(None, "commit of the code, if this is not a git checkout")

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.stream_parts

    @property
    def domain_names(self) -> list[str]:
        return _names(self.domains)

    @property
    def row_names(self) -> list[str]:
        return _names(self.rows)

    @property
    def system_files(self) -> list[Path]:
        return [Path(name) for name in _names(self.systems)]

    @property
    def stream_parts(self) -> list[str]:
        parts = _names(self.stream)
        for part in parts:
            if part not in PARTS:
                raise ConfigError(f"stream = {self.stream!r}: must be of {', '.join(PARTS)}, joined by commas")
        if not parts or len(set(parts)) < len(parts):
            raise ConfigError(f"stream = {self.stream!r}: must name each of its files once")
        return parts


def _names(joined: str | None) -> list[str]:
    return [name.strip() for name in (joined or "").split(",") if name.strip()]
