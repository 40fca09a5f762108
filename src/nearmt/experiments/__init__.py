"""Every table and ablation of the paper: what is measured, once, and what is reported of it."""

from nearmt.experiments.cells import Cell, Shelf
from nearmt.experiments.config import ExperimentConfig
from nearmt.experiments.definitions import EXPERIMENTS
from nearmt.experiments.report import Written, write_report
from nearmt.experiments.rows import Experiment, Row
from nearmt.experiments.running import run_tasks, tasks_of
from nearmt.experiments.setup import Setup
from nearmt.experiments.workshop import Workshop

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
