"""ComfyFlow's scores as an evaluator of ComfyUI workflows, without a run or a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from operad.evaluators.score_evaluator import Assessment, ScoreEvaluator
from operad.integrations.comfyui.comfyflow.score import as_json, score
from operad.integrations.comfyui.formats import Definitions, read_definitions
from operad.operators import OperatorConfig
from operad.runtime.values.file import FileDescriptor
from operad.runtime.values.message import Job


class ComfyFlowEvaluator(ScoreEvaluator):
    """Judges the ComfyUI workflow that the preceding operators wrote, as code, JSON or a whole answer with either.

    The score is the share of seven criteria that the workflow meets: valid format, a single connected component, no
    invalid terminal node (except output nodes), no undefined variable, no illegal parameter, no missing parameter, and
    soundness. A workflow without faults scores 1, and an invalid format 0. The outputs contain the `ComfyScore`.

    Args:
        config: Configuration of the evaluator.
        object_info: The classes of the server: a file with its answer at ``/object_info``, or the parsed classes.
        threshold: Minimum score for SUCCESS.

    Raises:
        InputError: The threshold is not a number from 0 to 1, or the file does not exist.
        InvalidError: The file contains no class.
    """

    def __init__(
        self, config: OperatorConfig, *, object_info: str | Path | Definitions, threshold: float = 1.0, **others: Any
    ) -> None:
        super().__init__(config, threshold=threshold, **others)
        self._definitions = (
            object_info
            if isinstance(object_info, Definitions)
            else read_definitions(FileDescriptor.of(object_info).read_text(), str(object_info))
        )

    def assess(self, text: str, job: Job) -> Assessment:
        """Measure a workflow."""
        found = score(text, self._definitions)
        faults = (found.terminal_but_outputs, found.undefined, found.illegal, found.missing)
        criteria = [found.format, found.connected, *(not fault for fault in faults), found.sound]
        findings = [str(issue) for issue in found.issues if issue.code not in ("missing-file", "terminal-output-node")]
        return Assessment(sum(criteria) / len(criteria), findings, as_json(found))
