"""Reader of recorded responses to the Chat2Workflow dataset, in the format of the benchmark."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from operad.flows.formats.json_text import MAX_BYTES, json_lines, read_json, read_text
from operad.integrations.chat2workflow.dataset import Dataset, optional_text, text_at, text_under, unknown_case
from operad.integrations.chat2workflow.response import Response
from operad.runtime.values.errors import InputError, InvalidError, Issue, did_you_mean
from operad.runtime.values.file import read_bytes


@dataclass(frozen=True, slots=True)
class RecordedCase:
    """Record of a test case.

    Attributes:
        passed: True if the case was resolved; None if it was not run.
        output: Text output of the workflow.
        reason: Reason of the judge.
    """

    passed: bool | None
    output: str | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class Record:
    """A recorded response of a run.

    Attributes:
        task: Name of the task.
        round: Number of the round.
        response: The response.
        valid: True if the response passed; None if that is not recorded.
        fail_step: First step that failed, ``1_1`` to ``1_4``; None if none failed or it is not recorded.
        reason: Reason of the judge of the last step.
        cases: Records of the test cases, by name.
    """

    task: str
    round: int
    response: Response
    valid: bool | None
    fail_step: str | None
    reason: str | None
    cases: Mapping[str, RecordedCase]

    @property
    def key(self) -> str:
        """Name of the subtask: ``Task_round``."""
        return f"{self.task}_{self.round}"


@dataclass(frozen=True, slots=True)
class Run:
    """Recorded responses of a model.

    Attributes:
        path: File or folder of the responses.
        records: The responses.
    """

    path: Path
    records: tuple[Record, ...]

    @property
    def model(self) -> str:
        """Name of the model: the name of the file without its extension, or of the folder."""
        return self.path.name if self.path.is_dir() else self.path.stem

    @property
    def label(self) -> str:
        """Name of the run: the folder that contains it, and the model."""
        return f"{self.path.absolute().parent.name}/{self.model}"


def read_run(path: Path, dataset: Dataset) -> Run:
    """Read a run.

    Args:
        path: A JSON file with a list of records or with one record in each line, or a folder of responses named
            ``Task_round.txt``. A record has ``task`` and ``round`` and either ``response``, a text with tags, or the
            texts between the tags: ``node_selection``, ``design_principle`` and ``workflow``; null without the tag.
        dataset: Dataset of the responses' tasks.

    Raises:
        InputError: A file cannot be read.
        InvalidError: The content is not a run, or has unknown or duplicate tasks; all issues are listed.
    """
    faults: list[Issue] = []
    records: dict[str, Record] = {}
    for where, value in _folder_items(path, faults) if path.is_dir() else _file_items(path, faults):
        faults_before = len(faults)
        record = _record(value, where, faults)
        if record is None or len(faults) > faults_before:
            continue
        if record.key not in dataset.subtasks:
            faults.append(Issue("unknown", unknown_case(record.task, record.round, dataset), where))
        elif record.key in records:
            faults.append(Issue("duplicate", f"{record.task} {record.round} was there before", where))
        records[record.key] = record
    if not records and not faults:
        what = "holds no file Task_round.txt" if path.is_dir() else "is an empty list"
        faults.append(Issue("empty", f"{what}; a run has one response or more", str(path)))
    if faults:
        raise InvalidError(str(path), faults)
    return Run(path, tuple(records.values()))


def _folder_items(folder: Path, faults: list[Issue]) -> Iterator[tuple[str, Any]]:
    """Yield the responses of a folder as records, each with its place for faults."""
    paths = sorted(folder.glob("*.txt"))
    if len(paths) > MOST_RESPONSES:
        raise InputError(f"{folder}: holds {len(paths):,} files .txt; the maximum is {MOST_RESPONSES:,}")
    for path in paths:
        name_match = _NUMBERED.fullmatch(path.stem)
        if name_match is None:
            faults.append(Issue("name", "must be called Task_round.txt", path.name))
        else:
            yield path.name, {"task": name_match[1], "round": int(name_match[2]), "response": text_under(path)}


def _file_items(path: Path, faults: list[Issue]) -> Iterator[tuple[str, Any]]:
    """Yield the records of a JSON file, each with its place for faults."""
    content = read_bytes(path, MAX_BYTES)
    if _is_object(content.lstrip().partition(b"\n")[0]):
        for number, value in json_lines(content, str(path), faults):
            yield f"{path}:{number}", value
        return
    value = read_json(read_text(content, str(path)), str(path))
    if not isinstance(value, list):
        raise InvalidError(str(path), [Issue("format", "must be a list of records, or have one a line", str(path))])
    for number, record in enumerate(cast("list[Any]", value)):
        yield f"[{number}]", record


def _is_object(line: bytes) -> bool:
    """Return whether a line is a JSON object."""
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _record(value: Any, where: str, faults: list[Issue]) -> Record | None:
    """Return the record that a JSON value describes; add the faults found, and return None if it cannot be read."""
    if not isinstance(value, dict):
        faults.append(Issue("format", "must be an object with task, round and a response", where))
        return None
    record = cast("dict[str, Any]", value)
    task = text_at(record, "task", where, faults)
    number = record.get("round")
    if isinstance(number, bool) or not isinstance(number, int):
        faults.append(Issue("format" if "round" in record else "missing", "round: must be a whole number", where))
        return None
    response = _response(record, f"{where} {task}_{number}", faults)
    where = f"{where} {task}_{number}"
    fail_step = optional_text(record, "fail_step", str, where, faults)
    step = fail_step.removeprefix("step_") if fail_step else None
    if step is not None and step not in _STEPS:
        faults.append(Issue("format", f"fail_step: must be step_1_1 to step_1_4, not {fail_step!r}", where))
    names = sorted(name for name in record if re.fullmatch(r"test[0-9]{1,3}", name))
    cases = {
        name: RecordedCase(
            optional_text(record, name, bool, where, faults),
            optional_text(record, f"llm_output_{name}", str, where, faults),
            optional_text(record, f"llm_evaluate_reason_{name}", str, where, faults),
        )
        for name in names
    }
    valid = optional_text(record, "valid", bool, where, faults)
    return Record(task, number, response, valid, step, optional_text(record, "reason", str, where, faults), cases)


def _response(record: Mapping[str, Any], where: str, faults: list[Issue]) -> Response:
    """Return the response of a record; add the faults found."""
    if isinstance(record.get("response"), str):
        return Response.of(record["response"])
    if "response" in record:
        faults.append(Issue("format", "response: must be a text", where))
        return Response(None, None, None)
    parts: list[str | None] = []
    for name in ("node_selection", "design_principle", "workflow"):
        if name not in record:
            faults.append(Issue("missing", f"has no {name}{did_you_mean(name, record)}, and no response", where))
        parts.append(optional_text(record, name, str, where, faults))
    return Response(*parts)


MOST_RESPONSES = 10_000
"""Maximum number of responses in a folder."""

_STEPS = ("1_1", "1_2", "1_3", "1_4")

_NUMBERED = re.compile(r"(.+)_([0-9]{1,3})")
