"""Run Dify files with a model that repeats its prompt."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dify_echo import BASE

from operad.flows.assemble import assemble
from operad.flows.check import OUTCOME, check
from operad.flows.formats.remarks import remarks_of
from operad.flows.secrets import file_secrets
from operad.integrations.dify.format import load
from operad.operators.nodes import NODE_TYPES
from operad.operators.services import Services
from operad.operators.web.fetch import Guard
from operad.runtime import Job, events
from operad.runtime.reasoning.prompt import render
from operad.runtime.testing import ScriptedReasoner
from operad.runtime.values.errors import OperadError, describe
from operad.runtime.values.message import Turn
from operad.runtime.values.secret import hide


def plausible(schema: Mapping[str, Any]) -> Any:
    """Return a value that fits a schema."""
    if "enum" in schema:
        return schema["enum"][0]
    match schema.get("type"):
        case "object":
            return {name: plausible(each) for name, each in schema.get("properties", {}).items()}
        case "array":
            return [plausible(schema.get("items", {}))]
        case "number" | "integer":
            return 7
        case "boolean":
            return True
        case _:
            return "text"


class Model:
    """Model that repeats its prompt, fails at prompts with FAIL or FLAKY, and chooses a given class.

    Args:
        pick: The number of the class that it chooses.
    """

    def __init__(self, pick: int = 0) -> None:
        self._pick = pick
        self._failed: Counter[str] = Counter()

    def answer(self, task: Any) -> str:
        """Return the answer to a task."""
        messages = [(each.role, each.text) for each in render(task, show_schema=False)]
        text = "".join(content for _, content in messages)
        if "FAIL" in text:
            raise OperadError("the model fails")
        if "FLAKY" in text and self._failed[text] < 2:
            self._failed[text] += 1
            raise OperadError("the model fails for now")
        if task.output_schema.schema is not None:
            schema = task.output_schema.schema
            port = schema.get("properties", {}).get("port")
            if port is not None and "enum" in port:
                return json.dumps({"port": port["enum"][self._pick % len(port["enum"])]})
            return json.dumps(plausible(schema))
        return "\n".join(f"{role}: {content}" for role, content in messages)


@dataclass(frozen=True)
class Ran:
    """Result of a run.

    Attributes:
        outputs: The outputs.
        ran: The number of executions of each node.
        error: The error that ended the run; empty if none.
    """

    outputs: Mapping[str, Any]
    ran: Mapping[str, int]
    error: str = ""


async def run_dify(
    text: bytes, base: str, given: Mapping[str, Any], before: Sequence[Sequence[str]] = (), pick: int = 0
) -> Ran:
    """Run a Dify file.

    Args:
        text: The file.
        base: The address of the echo server.
        given: The inputs.
        before: The earlier turns of the conversation, as (role, text).
        pick: The number of the class that classifiers choose.
    """
    outputs: Mapping[str, Any] = {}
    ran: Counter[str] = Counter()
    try:
        graph = load(text, "case")
        if issues := check(graph.runnable, NODE_TYPES):
            return Ran({}, {}, "; ".join(map(str, issues)))
        ids = {spec.id for spec in graph.nodes if not spec.type.endswith("-start") and spec.type != "conversation"}
        guard = Guard(allowed_hosts=(base.removeprefix("http://"),))
        workflow = assemble(graph, NODE_TYPES, services=Services(guard=guard))
        inputs = {name: base if value == BASE else value for name, value in given.items()}
        turns = tuple(Turn(role=role, text=content) for role, content in before)  # pyright: ignore[reportArgumentType]
        job = Job(goal="", inputs=inputs, turns=turns)
        async for event in workflow.stream(job, ScriptedReasoner(Model(pick).answer)):
            if isinstance(event, events.OperatorFinished):
                if event.operator_id in ids:
                    ran[event.operator_id] += 1
                if event.operator_id == OUTCOME and "results" not in event.message.outputs:
                    outputs = event.message.outputs
    except OperadError as error:
        return Ran(outputs, ran, describe(error))
    return Ran(outputs, ran)


def hidden(outputs: Any, text: bytes) -> Any:
    """Return outputs without the keys that a Dify file contains, as a request gives the answer that repeats them."""
    return json.loads(hide(json.dumps(outputs), file_secrets(load(text)).values()))


def remarked(text: bytes) -> tuple[str, str]:
    """Return the remarks of `operad check` on a file: why it cannot run, and what runs differently."""
    try:
        graph = load(text)
    except OperadError as error:
        return describe(error), ""
    issues = check(graph.runnable, NODE_TYPES)
    losses = [str(each.issue) for each in remarks_of(graph) if each.lossy]
    return "; ".join(map(str, issues)), "; ".join(losses)
