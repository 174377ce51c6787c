"""Results of an evaluation: what a case cost, which operators it used, and how evaluators judged it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from pydantic import Field, JsonValue

from operad.runtime import events
from operad.runtime.events import Event
from operad.runtime.values.errors import InputError
from operad.runtime.values.fault import Fault
from operad.runtime.values.json_lines import add_line, read_lines
from operad.runtime.values.map_item import without_index
from operad.runtime.values.message import NO_USAGE, Usage, WorkflowStatus
from operad.runtime.values.value import Value

T = TypeVar("T")

Results = dict[str, dict[str, Any]]
Store = Callable[[Mapping[str, Any]], None]


@contextmanager
def stored_results(
    path: Path | None, settings: Mapping[str, Any], hashes: Mapping[str, str], option: str = "--output"
) -> Generator[tuple[Results, Store]]:
    """Yield the results in a file that match the items of an evaluation, by key, and a function that adds a result.

    Args:
        path: The file, one JSON object per line; None to keep nothing.
        settings: Settings that results depend on, for the first line of the file.
        hashes: Hash of everything that the result of an item depends on, by key.
        option: Name of the option that names the file, for errors.

    Raises:
        InputError: The file cannot be used, or has results of other settings.
    """
    if path is None:
        yield {}, lambda line: None
        return
    head = {"evaluation": json.loads(json.dumps(settings))}
    try:
        lines = read_lines(path, head)
        with path.open("a", encoding="utf-8") as file:
            if not lines:
                add_line(file, head)
            results: Results = {}
            for line in lines[1:]:
                key = line.get("key")
                if isinstance(key, str) and key in hashes and hashes[key] == line.pop("print", ""):
                    results[key] = line
            yield results, lambda line: add_line(file, {"print": hashes[line["key"]], **line})
    except OSError as error:
        raise InputError(f"{option} {path}: cannot be used: {error.strerror or error}") from error


async def process_concurrently(items: Iterable[T], process: Callable[[T], Awaitable[object]], at_once: int) -> None:
    """Process items, at most `at_once` at the same time; after an error, the others are cancelled and have ended."""
    waiting = iter(list(items))

    async def worker() -> None:
        for item in waiting:
            await process(item)
            await asyncio.sleep(0)  # lets Ctrl-C be handled

    workers = [asyncio.ensure_future(worker()) for _ in range(max(1, at_once))]
    try:
        await asyncio.gather(*workers)
    finally:
        for task in workers:
            task.cancel()
        await asyncio.gather(*workers, return_exceptions=True)


MOST_LESSONS = 100
"""Maximum number of lessons that are kept for an operator of a run."""


class OperatorUse(Value):
    """Work of an operator in a run.

    Attributes:
        runs: Number of times that it ran, also for items of a map.
        seconds: Time that it took, in total.
        usage: Usage of its model calls; that of an operator with a workflow inside includes the operators inside.
        blamed: Number of rounds of the run in which the workflow's own evaluators blamed it.
        lessons: The lessons of these rounds.
        judges: True for an evaluator of the workflow.
    """

    runs: int = 0
    seconds: float = 0.0
    usage: Usage = NO_USAGE
    blamed: int = 0
    lessons: tuple[str, ...] = ()
    judges: bool = False


class EvaluatorResult(Value):
    """Result of an evaluator for a case.

    Attributes:
        name: Name of the evaluator.
        passed: True if the evaluator accepts the run, False if it rejects it; None if it only measures, or if it
            does not apply to the case.
        score: What it measured; None if it measured nothing.
        reason: Reason for the verdict.
        faults: Faults that it found, with the operators at fault.
        error: Error of the evaluator itself; empty if there was none.
        usage: Usage of its model calls.
    """

    name: str
    passed: bool | None = None
    score: float | None = Field(default=None, allow_inf_nan=False)
    reason: str = ""
    faults: tuple[Fault, ...] = ()
    error: str = ""
    usage: Usage = NO_USAGE


class ReportCase(Value):
    """Result of one run of a case.

    Attributes:
        name: Name of the case.
        repeat: Number of the run of the case, counted from 1.
        tags: Tags of the case.
        run_id: Id of the run.
        status: Verdict of the workflow's own evaluators, SUCCESS without any; None if the run failed.
        output: Output of the run, as JSON.
        expected: The right output, if it is known.
        error: Error of the run; empty if it ended.
        rounds: Number of rounds.
        seconds: Duration of the run.
        usage: Usage of the run.
        operators: Work of the operators, by id; those inside of others by their paths, with slashes.
        evaluators: Results of the evaluators.
    """

    name: str
    repeat: int = 1
    tags: tuple[str, ...] = ()
    run_id: str = ""
    status: WorkflowStatus | None = None
    output: JsonValue = None
    expected: JsonValue = None
    error: str = ""
    rounds: int = 0
    seconds: float = 0.0
    usage: Usage = NO_USAGE
    operators: dict[str, OperatorUse] = Field(default_factory=dict)
    evaluators: tuple[EvaluatorResult, ...] = ()

    @property
    def key(self) -> str:
        """Name of the case with the number of its run, such as ``moon#2``."""
        return f"{self.name}#{self.repeat}"

    @property
    def right(self) -> bool | None:
        """True if all evaluators of the evaluation accept the run, False if one rejects it; None if none decides."""
        decided = [each.passed for each in self.evaluators if each.passed is not None]
        return all(decided) if decided else None

    @property
    def passed(self) -> bool:
        """True if the run ended accepted by the workflow, and no evaluator rejected it or failed."""
        accepted = self.status is WorkflowStatus.SUCCESS
        return accepted and self.right is not False and not any(each.error for each in self.evaluators)

    @property
    def false_rejection(self) -> bool:
        """True if the workflow's own evaluators rejected a run that is right."""
        return self.right is True and self.status not in (None, WorkflowStatus.SUCCESS)

    @property
    def false_acceptance(self) -> bool:
        """True if the workflow accepted a run that is wrong."""
        return self.right is False and self.status is WorkflowStatus.SUCCESS

    @property
    def problems(self) -> list[str]:
        """Reasons for which the case did not pass, a line for each."""
        if self.error:
            return [f"the run failed: {self.error}"]
        lines: list[str] = []
        if self.status is not WorkflowStatus.SUCCESS:
            lines.append(f"the workflow rejected its result: {self.status.value if self.status else 'no status'}")
        for each in self.evaluators:
            if each.error:
                lines.append(f"{each.name}: the evaluator failed: {each.error}")
            elif each.passed is False:
                lines.append(f"{each.name}: {each.reason or 'rejected'}")
                lines += [f"  {fault_line(fault)}" for fault in each.faults]
        return lines


def fault_line(fault: Fault) -> str:
    """Return a fault on one line: the operator, the wrong text, the right one, and the lesson."""
    said = [f"wrong: {fault.wrong}"] * bool(fault.wrong) + [f"right: {fault.right}"] * bool(fault.right)
    said += [f"lesson: {fault.lesson}"] * bool(fault.lesson)
    return f"{fault.place}{'' if fault.sure else ' (suspected)'}: {'; '.join(said) or 'at fault'}"


class Uses:
    """Fold of the events of a run into the work of its operators.

    Attributes:
        heard: True if an operator has ended.
    """

    def __init__(self) -> None:
        self.heard = False
        self._uses: dict[str, dict[str, Any]] = {}

    def apply(self, event: Event) -> None:
        """Add what an event tells."""
        match event:
            case events.RunStarted():
                for name in (*event.operators, *event.judges):
                    self._of(name)["judges"] = name in event.judges
            case events.OperatorFinished() | events.OperatorFailed() | events.OperatorCancelled():
                self.heard = True
                use = self._of(_place(event.path))
                use["runs"] += 1
                use["seconds"] += event.seconds
                use["usage"] += event.message.usage if isinstance(event, events.OperatorFinished) else event.usage
            case events.RoundFinished() if event.status is not WorkflowStatus.SUCCESS:
                faults = event.faults or [Fault(operator=who, lesson=event.lesson) for who in event.blame]
                advice: dict[str, list[str]] = {}
                for fault in faults:
                    advice.setdefault(fault.operator, []).append(fault.advice)
                for operator, lessons in advice.items():
                    use = self._of(_place((*event.path, *operator.split("/"))))
                    use["blamed"] += 1
                    use["lessons"] += [lesson for lesson in lessons if lesson]
            case _:
                pass

    def uses(self) -> dict[str, OperatorUse]:
        """Return the work of each operator, in the order of the workflow."""
        return {
            name: OperatorUse.model_validate({**use, "lessons": tuple(use["lessons"][:MOST_LESSONS])})
            for name, use in self._uses.items()
        }

    def _of(self, name: str) -> dict[str, Any]:
        empty: dict[str, Any] = {"runs": 0, "seconds": 0.0, "usage": NO_USAGE, "blamed": 0, "lessons": []}
        return self._uses.setdefault(name, empty)


def _place(path: tuple[str, ...]) -> str:
    """Return the path of an operator without the items of maps."""
    return "/".join(without_index(step) for step in path)
