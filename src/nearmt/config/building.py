"""Settings of building a datastore."""

from __future__ import annotations

from dataclasses import dataclass

from nearmt.config.base import Config, option
from nearmt.errors import ConfigError

#: Seconds for which replaced files of a datastore stay, unless it says otherwise, and the most that it can say.
KEPT_SECONDS, MOST_SECONDS = 3600, 315_360_000


@dataclass(frozen=True)
class BuildConfig(Config):
    """How a datastore is built."""

    index: str = option(
        "auto", "exact, a FAISS factory string such as IVF1024,SQ8, or milvus://HOST:PORT[/DATABASE] (default: by size)"
    )
    index_patience: float = option(600.0, "seconds without progress after which Milvus is given up", low=0.1)
    fit_reduction: bool = option(False, "fit the PCA on these pairs even if the model comes with one")
    keep_replaced: int = option(
        KEPT_SECONDS, "seconds that files stay after they were replaced, for other machines", low=0, high=MOST_SECONDS
    )
    reduction_of: str | None = option(None, "take the PCA of this datastore, to search both together")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.fit_reduction and self.reduction_of is not None:
            raise ConfigError("fit-reduction makes a new PCA, reduction-of takes an existing one; give one of them")
