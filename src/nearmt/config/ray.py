"""Settings of a build that Ray spreads over machines."""

from __future__ import annotations

from dataclasses import dataclass

from nearmt.config.base import Config, option


@dataclass(frozen=True)
class RayConfig(Config):
    """How Ray builds."""

    workers: int | None = option(None, "with --ray: processes, each on a GPU or a CPU core of its own", low=1)
    parts: int | None = option(None, "with --ray: parts of the corpus", low=1)
