"""Every table and ablation of the paper: what is measured, once, and what is reported of it."""

from nearmt.research.experiments.cells import Cell, Shelf
from nearmt.research.experiments.config import ExperimentConfig
from nearmt.research.experiments.definitions import EXPERIMENTS
from nearmt.research.experiments.report import Written, write_report
from nearmt.research.experiments.rows import Experiment, Row
from nearmt.research.experiments.running import run_tasks, tasks_of
from nearmt.research.experiments.setup import Setup
from nearmt.research.experiments.workshop import Workshop

__all__ = [
    "EXPERIMENTS",
    "Cell",
    "Experiment",
    "ExperimentConfig",
    "Row",
    "Setup",
    "Shelf",
    "Workshop",
    "Written",
    "run_tasks",
    "tasks_of",
    "write_report",
]
