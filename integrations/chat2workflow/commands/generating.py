"""Generated responses to the instructions of Chat2Workflow's dataset, recorded as a run."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import Any

from operad.cli.evaluate.work import process_all, progress
from operad.configs.generation import NOTHING, Design, Designer
from operad.flows.formats.chat2workflow import dump, load
from operad.flows.node_graph import NodeGraph
from operad.integrations.chat2workflow.scores import Dataset, Subtask
from operad.runtime.values.errors import InputError, InvalidError, OperatorError
from operad.runtime.values.json_lines import add_line

Records = dict[str, dict[str, Any]]


def generate_run(path: Path, data: Dataset, designer: Designer, *, at_once: int = 1) -> None:
    """Generate the missing responses of a run; each is added to its file when it is complete.

    The rounds of a task follow each other: each changes the workflow of the round before. An unfinished response
    is recorded as the best attempt.

    Args:
        path: File of the run, with a line of JSON for each response; `operad evaluate pass` reads it.
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
        done = _read_records(path)
        with path.open("a", encoding="utf-8") as file, progress(len(data.subtasks), len(done)) as advance:

            async def respond(rounds: Sequence[Subtask]) -> None:
                for subtask in sorted(rounds, key=lambda each: each.round):
                    key = f"{subtask.task}_{subtask.round}"
                    if key in done:
                        continue
                    before = done.get(f"{subtask.task}_{subtask.round - 1}")
                    done[key] = await _generate_record(designer, subtask, _graph_of_record(before, subtask))
                    add_line(file, done[key])
                    advance()

            process_all(tasks.values(), respond, at_once, lambda: _progress_text(path, done, data))
    except OSError as error:
        raise InputError(f"{path}: cannot be used: {error.strerror or error}") from error


async def _generate_record(designer: Designer, subtask: Subtask, base: NodeGraph) -> dict[str, Any]:
    began = monotonic()
    design = await designer.adesign(subtask.instructions[-1], base)
    if isinstance(
        design.error, OperatorError
    ):  # the endpoint failed, not the response: the next run generates it again
        raise design.error
    usage = design.message.usage
    return {
        "task": subtask.task,
        "round": subtask.round,
        **_response_texts(design),
        "accepted": design.accepted,
        "findings": list(design.findings),
        "tokens": usage.tokens,
        "cost": usage.known_cost,
        "unpriced": usage.unpriced,
        "seconds": round(monotonic() - began, 1),
    }


def _response_texts(design: Design) -> Mapping[str, str | None]:
    """Return the three texts of a response; without a generated workflow, two of them are None."""
    if not design.made:
        return {"node_selection": None, "design_principle": design.message.evaluation, "workflow": None}
    kinds = dict.fromkeys(spec.type for spec in design.graph.nodes)
    plain = NodeGraph(design.graph.nodes, design.graph.edges, design.graph.name)
    return {
        "node_selection": ", ".join(kinds),
        "design_principle": "\n".join(design.plan),
        "workflow": dump(plain).decode(),
    }


def _graph_of_record(record: Mapping[str, Any] | None, subtask: Subtask) -> NodeGraph:
    """Return the workflow of the previous round, with the instructions so far."""
    if record is None or not record.get("workflow"):
        return NOTHING
    found = load(record["workflow"], subtask.task)
    return NodeGraph(found.nodes, found.edges, found.name, instructions=subtask.instructions[:-1])


def _read_records(path: Path) -> Records:
    """Return the responses in a file; an incomplete last line is removed from the file.

    Raises:
        InputError: The file holds something else; it is left unchanged.
        OSError: The file cannot be read.
    """
    if not path.exists():
        return {}
    records: Records = {}
    complete_bytes = 0
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
            complete_bytes += len(line)
    os.truncate(path, complete_bytes)
    return records


def _progress_text(path: Path, done: Records, data: Dataset) -> str:
    done_text = f"{len(done)} of {len(data.subtasks)} responses are made"
    return f"{done_text} and kept in {path}; the same command continues from there"
