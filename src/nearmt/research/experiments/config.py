"""What can be chosen for an experiment."""

from __future__ import annotations

from dataclasses import dataclass

from nearmt.config import Config, option
from nearmt.errors import ConfigError

#: What each row's settings come from.
TUNINGS = ("none", "smart", "grid")
#: How the fine-tuned model of a domain is found.
FINE_TUNINGS = ("paper", "grid", "none")
#: The files of a domain, by what they are for.
PARTS = ("train", "dev", "test")


@dataclass(frozen=True)
class ExperimentConfig(Config):
    """What is measured."""

    domains: str | None = option(None, "folders of the data, joined by commas (default: all that have train and test)")
    rows: str | None = option(None, "rows of the table, joined by commas (default: all)")
    limit: int | None = option(None, "use only the first lines of a test set", low=1)
    tune: str = option("smart", "settings of each row on its own, on the dev set: a search, the grid", choices=TUNINGS)
    tune_budget: int = option(36, "translations of the dev set that tuning a row may take", low=1)
    dev_limit: int = option(500, "dev lines that are translated to choose by", low=1)
    batch_size: int = option(8, "sentences translated together", low=1)
    tune_batch_size: int | None = option(
        None,
        "the same while tuning, where results do not depend on it (default: 64 on a GPU, else --batch-size)",
        low=1,
    )
    fine_tune: str = option(
        "paper", "the paper's choice for a domain, the best of its grid, none", choices=FINE_TUNINGS
    )
    fine_tune_epochs: int = option(20, "most epochs of fine-tuning", low=1)
    fine_tune_batch_tokens: int = option(8192, "source and target tokens of a batch of fine-tuning", low=1)
    adaptive_updates: int = option(5000, "most updates of an adaptive network", low=1)
    comet: str | None = option(None, "also score with COMET: the path of its comet-score")
    examples: int = option(5, "sentences shown by the experiment examples", low=1)
    stream: str = option("train", "files of a domain that its stream is made of (on-the-fly), joined by commas")
    at_hand: float = option(0.1, "share of a stream that is known from the beginning", low=0, high=0.99)
    learn_every: int = option(250, "sentences that are translated before a memory learns them", low=1)
    window: int = option(1000, "sentences of a stream that are scored together", low=1)
    side_by_side: bool = option(False, "other work runs on this machine: speeds do not count and are not shown")
    commit: str | None = option(None, "of the code, where git cannot be asked")

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
