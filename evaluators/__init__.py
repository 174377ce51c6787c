"""Evaluators, which judge results."""

from operad.evaluators.evaluator import Evaluator

__all__ = ["Evaluator"]
