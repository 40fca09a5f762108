"""Speed: nearmt's systems and other programs on the same weights, in one run, in turns."""

from nearmt.bench.config import BenchConfig
from nearmt.bench.running import Bench
from nearmt.bench.workbench import Workbench, opened

__all__ = ["Bench", "BenchConfig", "Workbench", "opened"]
