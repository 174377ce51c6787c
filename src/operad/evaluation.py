"""Evaluations: cases and data sets, evaluators in code, reports, and measurements of evaluators.

from operad.evaluation import Case, equals

report = flow.evaluate([Case("moon", job="Is this so? The moon has air.", expected="no")], evaluators=[equals])
report.assert_passed()
"""

from operad.runtime.evaluation.cases import Case, Dataset
from operad.runtime.evaluation.checks import Check, contains, equals
from operad.runtime.evaluation.comparison import Comparison, Difference
from operad.runtime.evaluation.measurement import JudgedCase, Measurement, Share
from operad.runtime.evaluation.recording import case_of
from operad.runtime.evaluation.report import EvaluationReport, EvaluatorSummary, OperatorSummary
from operad.runtime.evaluation.results import EvaluatorResult, OperatorUse, ReportCase

__all__ = [
    "Case",
    "Check",
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
