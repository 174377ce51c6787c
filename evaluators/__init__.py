"""What judges: evaluators."""

from operad.evaluators.evaluator import Evaluator

__all__ = ["Evaluator"]
