"""Scores of Chat2Workflow: the pass rate of responses, and the resolve rate of their workflows."""

from operad.integrations.chat2workflow.consistency import Consistency, judge_consistency
from operad.integrations.chat2workflow.dataset import (
    CATEGORIES,
    AnswerKey,
    Case,
    CaseFile,
    Dataset,
    Subtask,
    read_dataset,
)
from operad.integrations.chat2workflow.pass_evaluator import PassEvaluator, SoundEvaluator
from operad.integrations.chat2workflow.pass_rate import STEPS, PassVerdict, judge
from operad.integrations.chat2workflow.recorded import Record, RecordedCase, Run, read_run
from operad.integrations.chat2workflow.resolve_evaluator import ResolveEvaluator
from operad.integrations.chat2workflow.resolve_rate import CaseVerdict, resolve
from operad.integrations.chat2workflow.response import Response

__all__ = [
    "CATEGORIES",
    "STEPS",
    "AnswerKey",
    "Case",
    "CaseFile",
    "CaseVerdict",
    "Consistency",
    "Dataset",
    "PassEvaluator",
    "PassVerdict",
    "Record",
    "RecordedCase",
    "ResolveEvaluator",
    "Response",
    "Run",
    "SoundEvaluator",
    "Subtask",
    "judge",
    "judge_consistency",
    "read_dataset",
    "read_run",
    "resolve",
]
