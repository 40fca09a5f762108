"""How good and how fast: scores with the signature of everything that can change them."""

from nearmt.evaluation.comet import Comet, find_comet
from nearmt.evaluation.metrics import METRICS, Scores, score
from nearmt.evaluation.report import FileEvaluation, Row, System, evaluate_file, side_by_side
from nearmt.evaluation.scoring import Evaluation, evaluate
from nearmt.evaluation.significance import Comparison, compare

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
