"""Chat2Workflow's pass rate as evaluators: faults of a response become the lesson."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, cast

from operad.evaluators.score_evaluator import Assessment, ScoreEvaluator
from operad.integrations.chat2workflow.dataset import AnswerKey, Subtask, subtask_of
from operad.integrations.chat2workflow.pass_rate import STEPS, is_sound, judge, soundness
from operad.integrations.chat2workflow.response import Response
from operad.operators import OperatorConfig
from operad.runtime.values.errors import InputError
from operad.runtime.values.message import Job

UNREAD = ("no-tag", "format", "size", "misshapen-node", "misshapen-edge")
"""Codes of issues of texts that contain no workflow to check."""


class PassEvaluator(ScoreEvaluator):
    """Judges a response by steps 1 to 4 of Chat2Workflow's pass rate; the score is the share of steps passed.

    Args:
        config: Configuration of the evaluator; by default with the id ``pass``.
        key: Requirements on the workflow; in YAML, ``{inputs, outputs, key_nodes}`` in lists of names, or
            ``{dataset, task, round}``, the folder of the dataset and a round of one of its tasks.
        threshold: Minimum score for SUCCESS.

    Raises:
        InputError: There is no such round, or the key has another form.
        InvalidError: The dataset cannot be read.
    """

    def __init__(
        self,
        config: OperatorConfig | None = None,
        *,
        key: AnswerKey | Subtask | Mapping[str, Any],
        threshold: float = 1.0,
        **others: Any,
    ) -> None:
        config = config or OperatorConfig(instruction="The response passes Chat2Workflow's checks.", id="pass")
        super().__init__(config, threshold=threshold, **others)
        self.key = _key_of(key) if isinstance(key, Mapping) else key

    def assess(self, text: str, job: Job) -> Assessment:
        """Judge the response."""
        verdict = judge(Response.of(text), self.key)
        steps = len(STEPS) if verdict.fail_step is None else list(STEPS).index(verdict.fail_step)
        figures = {"passed": verdict.passed, "fail_step": verdict.fail_step, "sound": verdict.sound}
        return Assessment(steps / len(STEPS), verdict.findings, figures)


class SoundEvaluator(ScoreEvaluator):
    """Checks a response, or a workflow alone, by the full static check, without an answer key.

    The score is 1 for a sound workflow, 1 / (1 + number of issues) for another workflow, and 0 for other texts.

    Args:
        config: Configuration of the evaluator; by default with the id ``sound``.
        threshold: Minimum score for SUCCESS.
    """

    def __init__(self, config: OperatorConfig | None = None, *, threshold: float = 1.0, **others: Any) -> None:
        config = config or OperatorConfig(instruction="The workflow has no static fault.", id="sound")
        super().__init__(config, threshold=threshold, **others)

    def assess(self, text: str, job: Job) -> Assessment:
        """Check the workflow."""
        response = Response.of(text)
        issues = soundness(response if "<workflow>" in text else Response(None, None, text))
        figures = {"sound": is_sound(issues), "issues": [asdict(issue) for issue in issues]}
        unread = any(issue.code in UNREAD for issue in issues)
        score = 1.0 if is_sound(issues) else 0.0 if unread else 1 / (1 + len(issues))
        return Assessment(score, [] if is_sound(issues) else [str(issue) for issue in issues], figures)


def _key_of(given: Mapping[str, Any]) -> AnswerKey | Subtask:
    """Return the answer key that a mapping in YAML describes.

    Raises:
        InputError: The mapping has another form, or there is no such round.
        InvalidError: The dataset cannot be read.
    """
    if "dataset" in given:
        return subtask_of(given)
    lists = [given.get(name, []) for name in ("inputs", "outputs", "key_nodes")]
    known = given.keys() <= {"inputs", "outputs", "key_nodes"}
    if not known or not all(isinstance(names, list) for names in lists):
        raise InputError(
            f"key {dict(given)!r}: write {{inputs: […], outputs: […], key_nodes: […]}}, or {{dataset, task, round}}"
        )
    inputs, outputs, key_nodes = (tuple(map(str, cast("list[Any]", names))) for names in lists)
    return AnswerKey(inputs, (outputs,), key_nodes)
