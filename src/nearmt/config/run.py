"""What a translation uses: method, datastores, filters."""

from __future__ import annotations

from dataclasses import dataclass

from nearmt.config.base import Config, option
from nearmt.config.methods import METHODS, PRESETS


@dataclass(frozen=True)
class RunConfig(Config):
    """What is used to translate."""

    datastore: tuple[str, ...] | None = option(
        None, "the datastore to retrieve from; several are searched together, DIR=0.5 weighs one"
    )
    filter: tuple[str, ...] | None = option(
        None, "use only pairs with this metadata: KEY=VALUE, * stands for anything; of several all must hold"
    )
    method: str | None = option(
        None, "use of the memory (default: chunk with a datastore, else plain)", choices=METHODS
    )
    preset: str | None = option(None, "a strategy of the paper", choices=tuple(PRESETS))
    batch_size: int = option(8, "sentences translated together", low=1)
