"""Speed: nearmt's systems and other programs on the same weights, in one run, in turns."""

from nearmt.research.bench.config import BenchConfig
from nearmt.research.bench.running import Bench
from nearmt.research.bench.workbench import Workbench, opened

__all__ = ["Bench", "BenchConfig", "Workbench", "opened"]
