"""Runs as cases: the recorded operators of a run, and the answers of its model as a script for tests."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from operad.runtime import events
from operad.runtime.evaluation.cases import Case
from operad.runtime.events import Event
from operad.runtime.events.context import Trace
from operad.runtime.values.message import Job, WorkflowMessage, WorkflowStatus
from operad.runtime.values.step_record import StepRecord


def case_of(name: str, job: Job, happened: Iterable[Event], hide: Callable[[str], str] = str) -> Case:
    """Return a run as a case, whose label is the run's own verdict, with the answers of its model.

    Args:
        name: Name of the case.
        job: The job of the run.
        happened: The events of the run, which has finished.
        hide: Function that hides the secrets of a text.

    Raises:
        ValueError: The run has not finished.
    """
    listed = list(happened)
    finished = next((event for event in reversed(listed) if isinstance(event, events.RunFinished)), None)
    started = next((event for event in listed if isinstance(event, events.RunStarted)), None)
    if finished is None or started is None:
        raise ValueError("the run has not finished, so it has no result")
    message, accepted = finished.message, finished.message.status is WorkflowStatus.SUCCESS
    case = Case(
        name=name,
        job=job,
        steps=_records(listed, started, finished.round or finished.rounds),
        accepted=accepted,
        blame=() if accepted else tuple(message.blame),
        metadata={"workflow": started.workflow},
        script=tuple(_script(listed)),
        **({"expected": json.loads(json.dumps(message.value, default=str))} if accepted else {}),
    )
    return Case.model_validate(_hidden(case.as_dict(), hide))


def _records(listed: Iterable[Event], started: events.RunStarted, last: int) -> tuple[StepRecord, ...]:
    """Return the records of the operators, as of a round."""
    messages: dict[str, WorkflowMessage] = {}
    traces: dict[str, Trace] = {}
    skipped: dict[str, str] = {}
    for event in listed:
        if not event.path or (event.round > last and len(event.path) == 1):
            continue
        operator_id = event.path[0]
        if len(event.path) == 1 and isinstance(event, events.OperatorStarted):
            traces[operator_id] = Trace()
        elif isinstance(event, events.ToolCalled | events.ToolReturned | events.KnowledgeRetrieved):
            traces.setdefault(operator_id, Trace()).note(event)
        elif len(event.path) == 1 and isinstance(event, events.OperatorFinished):
            messages[operator_id] = event.message
        elif len(event.path) == 1 and isinstance(event, events.OperatorFailed | events.OperatorSkipped):
            messages.pop(operator_id, None)
            if isinstance(event, events.OperatorSkipped):
                skipped[operator_id] = event.reason
    return tuple(
        StepRecord(
            operator_id=each,
            instruction=started.instructions.get(each, ""),
            before=tuple(before),
            message=messages.get(each, WorkflowMessage()).changed(job_id="", operator_id=each),
            skipped="" if each in messages else skipped.get(each, "it did not run"),
            tool_calls=tuple(traces[each].calls) or None if each in traces else None,
            passages=traces[each].passages if each in traces else (),
        )
        for each, before in started.operators.items()
    )


def _script(listed: Iterable[Event]) -> Iterable[dict[str, Any]]:
    """Yield the answers of models, each with the instruction of the operator that asked."""
    instructions: dict[tuple[str, ...], Mapping[str, str]] = {}
    for event in listed:
        if isinstance(event, events.RunStarted | events.WorkflowEntered):
            instructions[event.path] = event.instructions
        elif isinstance(event, events.ModelAnswered):
            operator_id = event.path[-1] if event.path else ""
            calls = [[call.get("name", ""), _arguments(call.get("arguments", ""))] for call in event.tool_calls]
            answer: dict[str, Any] = {
                "operator": "/".join(event.path),
                "instruction": instructions.get(event.path[:-1], {}).get(operator_id, ""),
                "text": event.text,
                "calls": calls,
            }
            yield {key: value for key, value in answer.items() if value or key == "text"}


def _arguments(text: str) -> Any:
    try:
        return json.loads(text) if text else {}
    except ValueError:
        return text


def _hidden(value: Any, hide: Callable[[str], str]) -> Any:
    """Return a JSON value whose texts hide secrets."""
    if isinstance(value, str):
        return hide(value)
    if isinstance(value, dict):
        return {key: _hidden(each, hide) for key, each in cast("dict[str, Any]", value).items()}
    return [_hidden(each, hide) for each in cast("list[Any]", value)] if isinstance(value, list) else value
