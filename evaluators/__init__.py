"""Evaluators, which judge the results of workflows."""

from operad.evaluators.evaluator import Evaluator

__all__ = ["Evaluator"]
