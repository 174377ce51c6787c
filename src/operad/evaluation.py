"""Evaluations: cases and data sets, evaluators in code, reports, and measurements of evaluators.

from operad.evaluation import Case, equals

report = flow.evaluate([Case("moon", job="Is this so? The moon has air.", expected="no")], evaluators=[equals])
report.assert_passed()
"""

from operad.runtime.evaluation import (
    Case,
    Comparison,
    Dataset,
    Difference,
    EvaluationReport,
    EvaluatorResult,
    EvaluatorSummary,
    JudgedCase,
    Measurement,
    OperatorSummary,
    OperatorUse,
    ReportCase,
    Share,
    case_of,
    contains,
    equals,
)

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
