"""Responses of Chat2Workflow as items of an evaluation, and the model that judges them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from operad.integrations.chat2workflow.scores import Dataset, Record, Run, Subtask
from operad.runtime.models.model import Model
from operad.runtime.models.resolve import resolve_model
from operad.runtime.values.errors import InputError

ResponseFiles = Annotated[
    list[Path], typer.Argument(metavar="RUN", help="Responses: JSON, JSON lines, or folders of Task_round.txt.")
]
DatasetFolder = Annotated[Path, typer.Option("--dataset", help="The folder with query.json and the two answer keys.")]
RatesPlot = Annotated[Path | None, typer.Option("--plot", "--picture", help="Draw the rates: a file .png or .svg.")]


class NamedResponse(NamedTuple):
    """A response with the name of its run, and the instruction that it answers."""

    run: Run
    name: str
    record: Record
    subtask: Subtask

    def described(self) -> dict[str, Any]:
        """Return the fields that identify the response in a result."""
        return {
            "file": str(self.run.path),
            "run": self.name,
            "model": self.run.model,
            "task": self.record.task,
            "round": self.record.round,
            "category": self.subtask.category,
        }


def named_responses(runs: Iterable[Run], data: Dataset) -> list[NamedResponse]:
    """Return the responses of runs. A run is named by its label, or by its path if several have the label."""
    labels = Counter(run.label for run in runs)
    return [
        NamedResponse(run, run.label if labels[run.label] == 1 else str(run.path), record, data.subtasks[record.key])
        for run in runs
        for record in run.records
    ]


def judging_model(name: str | None, base_url: str | None, options: str) -> Model:
    """Return the model that judges.

    Raises:
        InputError: The model cannot judge; the error names the options that choose it.
    """
    model = resolve_model(name, base_url)
    if not model.prose:
        raise InputError(f"{model.describe()} cannot judge; name another model: {options}")
    return model
