"""Chat2Workflow's resolve rate as an evaluator: the workflow runs on test cases, and failures become the lesson."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from operad.evaluators.score_evaluator import Assessment, ScoreEvaluator
from operad.flows.formats.chat2workflow import issues_of
from operad.integrations.chat2workflow.dataset import Subtask, subtask_of
from operad.integrations.chat2workflow.resolve_rate import SECONDS, CaseVerdict, graph_of, resolve
from operad.operators import OperatorConfig, Services
from operad.operators.nodes import NODE_TYPES
from operad.runtime.reasoning.reasoner import Reasoner
from operad.runtime.values.errors import InputError, InvalidError
from operad.runtime.values.message import Job

_STEPS = {"2_1": "the run failed: ", "2_2": "its files are not as wanted: ", "2_3": "its results are not as wanted: "}
_ADVICE = {"2_1": "", "2_2": "; end with an output of that name, from a node that makes such files", "2_3": ""}


class ResolveEvaluator(ScoreEvaluator):
    """Runs the workflow of the preceding operators on the test cases of a subtask, and judges the outputs.

    The score is the share of resolved cases; a workflow with faults is not run. The lesson names the node that failed,
    the missing file, or the judge's reason. Files that a workflow creates are removed.

    Args:
        config: Configuration of the evaluator; by default with the id ``resolve``.
        subtask: Subtask of the workflow; all its test cases are run, one after another. In YAML
            ``{dataset, task, round}``, the folder of the dataset and a round of one of its tasks.
        runner: Reasoner of the workflow; by default the reasoner of the run that the evaluator is part of.
        judge: Reasoner that judges the outputs; by default the same.
        services: Services of the workflow's nodes.
        folder: Folder with the files of test cases.
        seconds: Time limit of the workflow for a case, and of the judge.
        threshold: Minimum share of resolved cases for SUCCESS, from 0 to 1.

    Raises:
        InputError: The threshold is not a number from 0 to 1, or there is no such round.
        InvalidError: The dataset cannot be read.
    """

    def __init__(
        self,
        config: OperatorConfig | None = None,
        *,
        subtask: Subtask | Mapping[str, Any],
        runner: Reasoner | None = None,
        judge: Reasoner | None = None,
        services: Services | None = None,
        folder: str | Path | None = None,
        seconds: float = SECONDS,
        threshold: float = 1.0,
        **others: Any,
    ) -> None:
        config = config or OperatorConfig(instruction="The workflow resolves the cases of its subtask.", id="resolve")
        super().__init__(config, threshold=threshold, **others)
        self._subtask = subtask_of(subtask) if isinstance(subtask, Mapping) else subtask
        self._runner = runner
        self._judge = judge
        self._services = services or Services()
        self._folder = Path(folder) if folder else None
        self._seconds = seconds

    async def aassess(self, text: str, job: Job, reasoner: Reasoner) -> Assessment:
        """Run the workflow on every case.

        Raises:
            InputError: There is no verdict on any case, as files, services or answers of the judge are missing.
            ModelError: An endpoint cannot be reached, or does not work.
        """
        try:
            graph = graph_of(text)
            issues = issues_of(graph, NODE_TYPES)
        except InvalidError as error:
            issues = error.issues
            graph = None
        if issues or graph is None:
            return Assessment(0.0, [str(issue) for issue in issues], {"resolved": 0, "cases": {}})
        verdicts: dict[str, CaseVerdict] = {}
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            for case in self._subtask.cases:
                verdicts[case.name] = await resolve(
                    graph,
                    case,
                    self._subtask,
                    reasoner=self._runner or reasoner,
                    judge=self._judge or reasoner,
                    services=replace(self._services, folder=Path(folder, case.name)),
                    folder=self._folder,
                    seconds=self._seconds,
                )
        decided = {name: verdict for name, verdict in verdicts.items() if verdict.resolved is not None}
        if not decided:
            reasons = "; ".join(dict.fromkeys(verdict.reason for verdict in verdicts.values()))
            raise InputError(f"{self.get_id()}: nothing can be told of {self._subtask.key}: {reasons}")
        resolved = sum(bool(verdict.resolved) for verdict in decided.values())
        return Assessment(
            resolved / len(decided),
            findings_of(decided),
            {"resolved": resolved, "cases": {name: _figures(verdict) for name, verdict in verdicts.items()}},
        )


def findings_of(verdicts: Mapping[str, CaseVerdict]) -> Sequence[str]:
    """Return a finding for each failure, earlier steps first; cases with the same failure share a finding."""
    failed: dict[tuple[str, str], list[str]] = {}
    for name, verdict in verdicts.items():
        if verdict.step is not None:
            failed.setdefault((verdict.step, verdict.reason), []).append(name)
    return [
        f"On {', '.join(names)} {_STEPS[step]}{reason}{_ADVICE[step]}"
        for (step, reason), names in sorted(failed.items(), key=lambda each: each[0][0])
    ]


def _figures(verdict: CaseVerdict) -> dict[str, Any]:
    """Return a verdict as JSON."""
    return {
        "resolved": verdict.resolved,
        "step": verdict.step,
        "reason": verdict.reason,
        "seconds": round(verdict.seconds, 3),
    }
