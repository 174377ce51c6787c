"""Evaluations: data sets of cases, evaluators in code, and reports with scores by operator.

`Workflow.evaluate` runs the cases; `operad.runtime.workflow.evaluate` does its work.
"""

from operad.runtime.evaluation.cases import Case, Dataset
from operad.runtime.evaluation.comparison import Comparison, Difference
from operad.runtime.evaluation.measurement import JudgedCase, Measurement, Share
from operad.runtime.evaluation.recording import case_of
from operad.runtime.evaluation.report import EvaluationReport, EvaluatorSummary, OperatorSummary
from operad.runtime.evaluation.results import EvaluatorResult, OperatorUse, ReportCase
from operad.runtime.evaluation.scorers import contains, equals

__all__ = [
    "Case",
    "Comparison",
    "Dataset",
    "Difference",
    "EvaluationReport",
    "EvaluatorResult",
    "EvaluatorSummary",
    "JudgedCase",
    "Measurement",
    "OperatorSummary",
    "OperatorUse",
    "ReportCase",
    "Share",
    "case_of",
    "contains",
    "equals",
]
