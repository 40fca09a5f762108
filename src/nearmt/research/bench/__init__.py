"""Benchmark of speed: nearmt's systems and other programs with the same weights, alternating in one run."""

from nearmt.research.bench.config import BenchConfig
from nearmt.research.bench.loading import SystemLoader, opened
from nearmt.research.bench.running import Bench

__all__ = ["Bench", "BenchConfig", "SystemLoader", "opened"]
