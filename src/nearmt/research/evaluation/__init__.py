"""Scores and speed of translations, each with the signature of everything that can change it."""

from nearmt.research.evaluation.comet import Comet, find_comet
from nearmt.research.evaluation.metrics import METRICS, Scores, score
from nearmt.research.evaluation.report import FileEvaluation, Row, System, evaluate_file, side_by_side
from nearmt.research.evaluation.scoring import Evaluation, evaluate
from nearmt.research.evaluation.significance import Comparison, compare

__all__ = [
    "METRICS",
    "Comet",
    "Comparison",
    "Evaluation",
    "FileEvaluation",
    "Row",
    "Scores",
    "System",
    "compare",
    "evaluate",
    "evaluate_file",
    "find_comet",
    "score",
    "side_by_side",
]
