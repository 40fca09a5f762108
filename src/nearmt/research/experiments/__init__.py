"""The tables, figures and ablations of the paper: their definitions, measurements and reports."""

from nearmt.research.experiments.artefacts import Artefacts
from nearmt.research.experiments.cells import Cell, ResultFiles
from nearmt.research.experiments.config import ExperimentConfig
from nearmt.research.experiments.definitions import EXPERIMENTS
from nearmt.research.experiments.report import WrittenReport, write_report
from nearmt.research.experiments.rows import Experiment, Row
from nearmt.research.experiments.running import run_tasks, tasks_of
from nearmt.research.experiments.setup import Setup

__all__ = [
    "EXPERIMENTS",
    "Artefacts",
    "Cell",
    "Experiment",
    "ExperimentConfig",
    "ResultFiles",
    "Row",
    "Setup",
    "WrittenReport",
    "run_tasks",
    "tasks_of",
    "write_report",
]
