"""Copies of runs that continue from an operator, also with other outputs of operators or other inputs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

from operad.runtime.durable.codec import Codec, Outcome
from operad.runtime.durable.description import Description, is_again, is_under, leaves, paths_again, place_of
from operad.runtime.durable.restart import Restart
from operad.runtime.durable.tables import DONE, StepRow, StoredQuestion, StoredRun
from operad.runtime.events.journal import bare
from operad.runtime.graph.operator import BaseOperator
from operad.runtime.values.errors import InputError, did_you_mean, shorten
from operad.runtime.values.map_item import without_index
from operad.runtime.values.message import Job, WorkflowMessage
from operad.runtime.values.round_trip import message_of
from operad.runtime.workflow.workflow import Workflow

_LONGEST_ID = 90
"""Number of characters of a run's id that the id of a copy begins with."""


class Copied(NamedTuple):
    """Parts of a copy that are stored."""

    run: StoredRun
    steps: Sequence[StepRow]
    questions: Sequence[StoredQuestion]

    def numbered(self, number: int) -> StoredRun:
        """Return the run with the id of the original and a number."""
        return replace(self.run, run_id=f"{self.run.run_id[:_LONGEST_ID]}-{number}")


def copied(
    kept: StoredRun,
    call: Mapping[str, Any],
    rows: Sequence[StepRow],
    questions: Sequence[StoredQuestion],
    workflow: Workflow[Any],
    now: Description,
    restart: Restart,
    codec: Codec,
) -> Copied:
    """Return the parts of a run that a copy of it keeps, with the changes.

    Args:
        call: The input of the run, by part.
        rows: Records of its operators, with their outcomes.
        workflow: The current workflow, and `now` its description.

    Raises:
        InputError: See `Records.restart_from`.
    """
    starts = {path: paths_again(kept, now, path) for path in dict.fromkeys([restart.operator, *restart.outputs])}
    for path, again in starts.items():
        _check_round(kept.run_id, path, again, restart.round, rows)

    def repeats(key: str) -> bool:
        return any(is_again(key, again, restart.round) for again in starts.values())

    steps = {row.key: row for row in rows if row.outcome is not None and not repeats(row.key)}
    for path, value in restart.outputs.items():
        changed = _changed_output(kept.run_id, path, value, restart.round, rows, workflow, codec)
        steps[changed.key] = changed
    if restart.inputs:
        holders = {name: each for name, each in workflow.graph().operators.items() if each.holds_inputs}
        job = _changed_job(kept.run_id, call["job"], restart.inputs, workflow, holders.values())
        call = {**call, "job": job}
        steps = {key: row for key, row in steps.items() if bare(key)[0][0] not in holders}
    run = StoredRun(
        kept.run_id,
        workflow=kept.workflow,
        source=kept.source,
        graph=json.dumps(now),
        call=codec.dump(dict(call)) if restart.inputs else kept.call,
        done=len({place_of(key)[0] for key in steps}),
        total=leaves(now),
        origin=restart.record(kept.run_id),
    )
    return Copied(run, list(steps.values()), [each for each in questions if not repeats(each.step)])


def _check_round(run_id: str, path: str, again: Sequence[str], round: int, rows: Sequence[StepRow]) -> None:
    ran = sorted({number for place, number in (place_of(row.key) for row in rows) if is_under(place, again[:1])})
    if round < 1 or ((ran or round > 1) and round not in ran):
        rounds = ", ".join(map(str, ran)) or "none yet"
        raise InputError(f"run {run_id!r}: {path!r} did not run in round {round}; it ran in: {rounds}")


def operator_at(workflow: Any, path: str) -> BaseOperator[Any] | None:
    """Return the operator at a path of a run's keys; None if there is none, or if several workflows may have it."""
    operator: BaseOperator[Any] | None = None
    holders: Sequence[Any] = [workflow]
    for step in path.split("/"):
        if len(holders) != 1:
            return None
        operators = holders[0].graph().operators
        operator = operators.get(step) or operators.get(without_index(step))
        if operator is None:
            return None
        holders = operator.runs_workflows or ()
    return operator


def _changed_output(
    run_id: str, path: str, value: Any, round: int, rows: Sequence[StepRow], workflow: Any, codec: Codec
) -> StepRow:
    """Return the record of an operator with another output, and without the conversation that led to the old one.

    Raises:
        InputError: The operator has no output of its own, or the value does not fit its type.
    """
    told = f"run {run_id!r}: the output of {path!r}"
    own = sorted((each for each in rows if place_of(each.key) == (path, round)), key=lambda row: bare(row.key)[1])
    row = own[0] if own else None  # of the rounds of workflows around it, the first: later ones are left out
    if row is None or row.outcome is None:
        raise InputError(
            f"{told} cannot be changed: it has none of its own; name an operator inside, or one that has run"
        )
    operator, before = operator_at(workflow, path), codec.load(row.outcome, Outcome).message
    try:
        message = _message_of(value, before)
        if operator is not None:
            operator.read_output(message)
    except (ValueError, InputError) as error:
        raise InputError(f"{told}: {error}") from error
    ports = before.ports if before else None
    message = message.changed(operator_id=path.rpartition("/")[2], ports=ports, job_id=before.job_id if before else "")
    outcome = codec.dump(Outcome(message))
    return StepRow(run_id, row.key, outcome, row.began, row.ended or row.began, DONE)


def _message_of(value: Any, before: WorkflowMessage | None) -> WorkflowMessage:
    """Return a value as a message, in place of another one.

    An object with names of its outputs replaces these. Another value replaces the output that is its answer, if one is.

    Raises:
        InputError: The value has no JSON form, or names an output that the operator does not have.
    """
    message = message_of(value)
    if before is None or not before.outputs:
        return message
    names, plain = before.outputs, message.value
    if before.answer is not None and not (isinstance(plain, Mapping) and plain and plain.keys() <= names.keys()):
        text = message.scratchpad if before.scratchpad else ""
        return before.changed(outputs={**names, before.answer: plain}, scratchpad=text)
    if not isinstance(plain, Mapping):
        raise InputError(f"expected an object with some of its outputs: {', '.join(names)}")
    given = cast("Mapping[str, Any]", plain)
    if unknown := [name for name in given if name not in names]:
        told = ", ".join(f"{name!r}{did_you_mean(str(name), names)}" for name in unknown)
        raise InputError(f"there is no output {told}; there are: {', '.join(names)}")
    message = message_of({**names, **given})
    return before.changed(outputs=message.outputs, scratchpad=message.scratchpad if before.scratchpad else "")


def _changed_job(
    run_id: str, job: Job, inputs: Mapping[str, Any], workflow: Any, holders: Iterable[BaseOperator[Any]]
) -> Job:
    """Return a job with other inputs.

    Args:
        holders: The operators that hold the inputs of the job, and run again.

    Raises:
        InputError: No operator reads an input, or an input does not fit.
    """
    read = workflow.built().inputs_read()
    known = None if read is None else read | job.inputs.keys()
    if known is not None and (unknown := [name for name in inputs if name not in known]):
        told = ", ".join(f"{name!r}{did_you_mean(name, sorted(known))}" for name in unknown)
        raise InputError(
            f"run {run_id!r}: no operator reads the inputs {told}; there are: {shorten(sorted(known)) or 'none'}"
        )
    changed = job.model_copy(update={"inputs": {**job.inputs, **inputs}})
    for holder in holders:
        try:
            holder.check_job(changed)
        except InputError as error:
            raise InputError(f"run {run_id!r}: {error}") from error
    return changed
