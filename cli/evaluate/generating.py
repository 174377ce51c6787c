"""Responses to the instructions of Chat2Workflow's dataset, made by our designer and recorded as a run."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import Any

from operad.cli.evaluate.work import progress, worked_through
from operad.configs.generation import NOTHING, Design, Designer
from operad.configs.lines import add_line
from operad.evaluators.chat2workflow import Dataset, Subtask
from operad.flows.formats.chat2workflow import dump, load
from operad.flows.node_graph import NodeGraph
from operad.runtime.values.errors import InputError, InvalidError, OperatorError

Records = dict[str, dict[str, Any]]


def generate_run(path: Path, data: Dataset, designer: Designer, *, at_once: int = 1) -> None:
    """Generate the missing responses of a run; each is added to its file when it is complete.

    The rounds of a task follow each other: each changes the workflow of the round before. An unfinished response
    is recorded as the best attempt.

    Args:
        path: The run: a line of JSON for each response, which `operad evaluate pass` reads.
        data: The dataset.
        designer: Generator of the responses.
        at_once: Number of tasks that are worked on at the same time.

    Raises:
        InputError: The file cannot be used.
        IncompleteError: The model cannot be reached; finished responses are kept.
        SystemExit: Interrupted; its status is 130.
    """
    tasks: dict[str, list[Subtask]] = {}
    for subtask in data.subtasks.values():
        tasks.setdefault(subtask.task, []).append(subtask)
    try:
        done = _read(path)
        with path.open("a", encoding="utf-8") as file, progress(len(data.subtasks), len(done)) as advance:

            async def respond(rounds: Sequence[Subtask]) -> None:
                for subtask in sorted(rounds, key=lambda each: each.round):
                    key = f"{subtask.task}_{subtask.round}"
                    if key in done:
                        continue
                    before = done.get(f"{subtask.task}_{subtask.round - 1}")
                    done[key] = await _record(designer, subtask, _graph(before, subtask))
                    add_line(file, done[key])
                    advance()

            worked_through(tasks.values(), respond, at_once, lambda: _how_far(path, done, data))
    except OSError as error:
        raise InputError(f"{path}: cannot be used: {error.strerror or error}") from error


async def _record(designer: Designer, subtask: Subtask, base: NodeGraph) -> dict[str, Any]:
    began = monotonic()
    design = await designer.adesign(subtask.instructions[-1], base)
    if isinstance(design.error, OperatorError):  # of the endpoint, not of the response: it is made again
        raise design.error
    usage = design.message.usage
    return {
        "task": subtask.task,
        "round": subtask.round,
        **_response(design),
        "accepted": design.accepted,
        "findings": list(design.findings),
        "tokens": usage.tokens,
        "cost": usage.known_cost,
        "unpriced": usage.unpriced,
        "seconds": round(monotonic() - began, 1),
    }


def _response(design: Design) -> Mapping[str, str | None]:
    """The three texts of a response; none where there is no workflow."""
    if not design.made:
        return {"node_selection": None, "design_principle": design.message.evaluation, "workflow": None}
    kinds = dict.fromkeys(spec.type for spec in design.graph.nodes)
    plain = NodeGraph(design.graph.nodes, design.graph.edges, design.graph.name)
    return {
        "node_selection": ", ".join(kinds),
        "design_principle": "\n".join(design.plan),
        "workflow": dump(plain).decode(),
    }


def _graph(record: Mapping[str, Any] | None, subtask: Subtask) -> NodeGraph:
    """The workflow of the round before, with the instructions so far."""
    if record is None or not record.get("workflow"):
        return NOTHING
    found = load(record["workflow"], subtask.task)
    return NodeGraph(found.nodes, found.edges, found.name, instructions=subtask.instructions[:-1])


def _read(path: Path) -> Records:
    """The responses that are there; a last line that was cut off is cut from the file.

    Raises:
        InputError: It is another file; it is left as it is.
        OSError: It cannot be read.
    """
    if not path.exists():
        return {}
    records: Records = {}
    whole = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                break
            try:
                record: Any = json.loads(line)
                records[f"{record['task']}_{record['round']}"] = record
                load(record["workflow"] or '{"nodes_info": [], "edges": []}')
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError, InvalidError) as error:
                raise InputError(f"{path}:{number}: is not a generated response; name another file") from error
            whole += len(line)
    os.truncate(path, whole)
    return records


def _how_far(path: Path, done: Records, data: Dataset) -> str:
    told = f"{len(done)} of {len(data.subtasks)} responses are made"
    return f"{told} and kept in {path}; the same command continues from there"
