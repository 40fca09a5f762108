"""How good and how fast: scores with the signature of everything that can change them."""

from nearmt.evaluation.scoring import Evaluation, evaluate

__all__ = ["Evaluation", "evaluate"]
