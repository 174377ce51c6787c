"""The resolve rate of Chat2Workflow (algorithm 2): a workflow is run on a test case, and what comes is checked and judged."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, cast

from pydantic import JsonValue

from operad.evaluators.chat2workflow.dataset import Case, CaseFile, Subtask
from operad.evaluators.chat2workflow.output_judge import OutputJudge, has_files
from operad.evaluators.chat2workflow.response import Response, without_fence
from operad.flows import NodeGraph
from operad.flows.assemble import assemble
from operad.flows.formats.chat2workflow import load
from operad.operators import Services
from operad.operators.nodes import NODE_TYPES
from operad.operators.nodes.files import TextToImage
from operad.operators.nodes.flow import StartParams
from operad.operators.nodes.sources import GoogleSearch
from operad.operators.variables import type_of
from operad.runtime.events import Event, ModelAnswered
from operad.runtime.policies.policy import causes
from operad.runtime.reasoning.reasoner import Reasoner
from operad.runtime.values.errors import (
    AnswerError,
    FetchError,
    InputError,
    InvalidError,
    MissingExtraError,
    ModelError,
    OperadError,
    OperatorError,
    RequestError,
    describe,
    did_you_mean,
)
from operad.runtime.values.file import FileDescriptor
from operad.runtime.values.message import NO_USAGE, Job, Usage, WorkflowMessage
from operad.runtime.workflow.workflow import BuiltinWorkflow, Workflow

SECONDS = 600.0
"""Default time limit of a workflow for a test case, and of its judge, in seconds."""

MAX_REASON = 2_000
"""Characters of a reason."""

Step = Literal["2_1", "2_2", "2_3"]


@dataclass(frozen=True, slots=True)
class CaseVerdict:
    """Verdict on a workflow for a test case.

    Attributes:
        resolved: True if it met the request; None if that cannot be determined, because a file, a service or a verdict
            is missing.
        step: The step at which it failed: ``2_1`` execution, ``2_2`` files, ``2_3`` judge; None
            if it is resolved, or was not run.
        reason: Reason for the failure, or the judge's reason for the success.
        outputs: The results of the workflow, by name; files as `FileDescriptor`.
        usage: Usage of models, the judge's included.
        seconds: Duration, the judge included.
    """

    resolved: bool | None
    step: Step | None
    reason: str
    outputs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    usage: Usage = NO_USAGE
    seconds: float = 0.0

    @property
    def files(self) -> Mapping[str, Sequence[FileDescriptor]]:
        """The files among the results, by name."""
        return {name: found for name, value in self.outputs.items() if (found := _files_of(value))}


async def resolve(
    workflow: NodeGraph | str,
    case: Case,
    subtask: Subtask,
    *,
    reasoner: Reasoner,
    judge: Reasoner,
    services: Services | None = None,
    folder: Path | None = None,
    seconds: float = SECONDS,
) -> CaseVerdict:
    """Run a workflow on a test case, and judge if it meets the request.

    It is resolved if it runs without an error and has outputs, every expected file exists and is of the right kind,
    and the judge finds that its other results, if any, meet the request.

    Args:
        workflow: The workflow; or a whole response, or the JSON in it.
        case: The test case.
        subtask: Its subtask.
        reasoner: Reasoner of the workflow.
        judge: Reasoner that judges the results.
        services: Services of its nodes, which write files to their folder. Speech is requested as WAV, since no
            workflow of the benchmark can specify that, and its answer key requires it.
        folder: Folder with the files of test cases.
        seconds: Time limit of the workflow, and of the judge.

    Raises:
        ModelError: An endpoint cannot be reached, or does not work: there is no verdict on the workflow.
        FetchError: The same for the search.
        MissingExtraError: An extra that a node needs is not installed.
    """
    clock = asyncio.get_running_loop().time
    began = clock()
    spent = _Spent()
    trial = _Trial(case, subtask, reasoner, judge, _with_wav(services or Services()), folder, seconds, spent)
    verdict = await trial.verdict(workflow)
    reason = verdict.reason if len(verdict.reason) <= MAX_REASON else f"{verdict.reason[:MAX_REASON]}…"
    return replace(verdict, reason=reason, usage=spent.usage, seconds=clock() - began)


def graph_of(text: str) -> NodeGraph:
    """The workflow of a whole response, or of the JSON in it, which may stand in a code fence.

    Raises:
        InvalidError: It holds none that can be read; every issue is listed.
    """
    written = Response.of(text).workflow
    return load(without_fence(text if written is None else written))


def files_of(case: Case) -> Iterator[str]:
    """The names of the files that a test case needs."""
    for value in case.inputs.values():
        for each in cast("tuple[Any, ...]", value) if isinstance(value, tuple) else (value,):
            if isinstance(each, CaseFile):
                yield each.name


def missing_files(cases: Iterable[Case], folder: Path | None) -> list[str]:
    """Return the files that test cases need and a folder does not hold.

    Args:
        cases: The test cases.
        folder: Folder of their files; None for none.
    """
    names = dict.fromkeys(name for case in cases for name in files_of(case))
    return [name for name in names if _path_of(name, folder) is None]


def _path_of(name: str, folder: Path | None) -> Path | None:
    if folder is None or Path(name).name != name:  # a dataset may not name files outside of the folder
        return None
    path = folder / name
    return path if path.is_file() else None


class _Spent:
    """Listens to a run, and adds up what models cost."""

    def __init__(self) -> None:
        self.usage = NO_USAGE

    def __call__(self, event: Event) -> None:
        if isinstance(event, ModelAnswered):
            self.usage = self.usage + event.usage


@dataclass(frozen=True, slots=True)
class _Trial:
    case: Case
    subtask: Subtask
    reasoner: Reasoner
    judge: Reasoner
    services: Services
    folder: Path | None
    seconds: float
    spent: _Spent

    async def verdict(self, workflow: NodeGraph | str) -> CaseVerdict:
        """The steps, up to the first that fails."""
        if missing := missing_files([self.case], self.folder):
            return CaseVerdict(None, None, f"no file: {', '.join(missing)}")
        try:
            graph = graph_of(workflow) if isinstance(workflow, str) else workflow
            running = assemble(graph, NODE_TYPES, services=self.services)
        except InvalidError as error:
            return CaseVerdict(False, "2_1", describe(error))
        if lacking := lacking_services(graph, self.services):
            return CaseVerdict(None, None, f"no service: {'; '.join(lacking)}")
        outputs, fault = await self._execute(graph, running)
        if fault:
            return CaseVerdict(False, "2_1", fault, outputs)
        if fault := file_fault(outputs, self.subtask):
            return CaseVerdict(False, "2_2", fault, outputs)
        given = given_names(outputs, self.subtask) - self.subtask.files.keys()
        texts = {name: value for name, value in outputs.items() if name in given and not _files_of(value)}
        if not texts:
            return CaseVerdict(True, None, "every file is there, and there is no text to judge", outputs)
        return await self._judged(texts, outputs)

    async def _execute(self, graph: NodeGraph, running: Workflow) -> tuple[Mapping[str, Any], str]:
        """The results, and what went wrong; empty where nothing did."""
        try:
            message = await self._run(running, Job(goal=graph.name, inputs=self._inputs(graph)), self.reasoner)
        except asyncio.TimeoutError:
            return {}, f"ran longer than the {self.seconds:g} s that it may"
        except OperadError as error:
            if fault := _not_its_own(error, graph):
                raise fault from error
            return {}, describe(error)
        came = any(value is not None and value not in ("", [], {}) for value in message.outputs.values())
        return message.outputs, "" if came else "ran to its end and gave nothing"

    def _inputs(self, graph: NodeGraph) -> dict[str, JsonValue]:
        """The inputs as a job has them; files by their paths.

        Raises:
            InputError: The workflow takes something else where the test case has a file.
        """
        start = next(node for node in graph.nodes if node.type == "start" and not node.parent)
        kinds = {variable.name: variable.type for variable in StartParams.model_validate(start.params).variables}
        wrong = [
            f"{name!r} is declared as {kinds[name].value}"
            for name, value in self.case.inputs.items()
            if has_files(value) and name in kinds and not kinds[name].is_file
        ]
        if wrong:
            raise InputError(f"node {start.id!r} (start): {', '.join(wrong)}, and the test case gives files there")
        return {name: self._value(value) for name, value in self.case.inputs.items()}

    def _value(self, value: Any) -> JsonValue:
        if isinstance(value, CaseFile):
            return str(_path_of(value.name, self.folder))
        return [self._value(each) for each in cast("tuple[Any, ...]", value)] if isinstance(value, tuple) else value

    async def _judged(self, texts: Mapping[str, Any], outputs: Mapping[str, Any]) -> CaseVerdict:
        judging = BuiltinWorkflow(name="judge")
        judging.add_operator(OutputJudge(self.subtask, self.case, texts))
        try:
            message = await self._run(judging, Job(goal=self.subtask.key), self.judge)
        except asyncio.TimeoutError:
            return CaseVerdict(None, "2_3", f"no verdict: the judge took longer than {self.seconds:g} s", outputs)
        except OperatorError as error:
            cause = error.__cause__ or error
            if not isinstance(cause, AnswerError | RequestError):
                raise cause from error
            return CaseVerdict(None, "2_3", f"no verdict: {describe(cause)}", outputs)
        resolved = message.outputs["resolved"]
        return CaseVerdict(resolved, None if resolved else "2_3", message.outputs["reason"], outputs)

    async def _run(self, workflow: Workflow, job: Job, reasoner: Reasoner) -> WorkflowMessage:
        workflow.add_listener(self.spent)
        return await asyncio.wait_for(workflow.aexecute(job, reasoner), self.seconds)


def file_fault(outputs: Mapping[str, Any], subtask: Subtask) -> str:
    """Return the fault of the files among the results; empty if there is none.

    Every result that the answer key has as a file must be there, as one file or several of that extension that are not
    empty. Where branches end differently, only those of the branch that was taken must be. Where files are sorted into
    several results, some may be empty lists.
    """
    given = given_names(outputs, subtask)
    expected = {name: suffix for name, suffix in subtask.files.items() if name in given}
    faults = [fault for name, suffix in expected.items() if (fault := _fault_of(name, suffix, outputs))]
    if expected and not faults and all(not outputs[name] for name in expected):
        faults = [f"no file came: {', '.join(map(repr, expected))} empty"]
    return "; ".join(faults)


def given_names(outputs: Mapping[str, Any], subtask: Subtask) -> set[str]:
    """Return the results that a run must have: those of the branch taken, or all if no branch matches exactly."""
    came = {name for name, value in outputs.items() if value is not None}
    return came if any(set(names) == came for names in subtask.outputs) else {*outputs, *subtask.files}


def _fault_of(name: str, suffix: str, outputs: Mapping[str, Any]) -> str:
    if name not in outputs:
        return f"{name!r} is missing{did_you_mean(name, outputs)}: a {suffix} file is wanted"
    value = outputs[name]
    if value == []:
        return ""
    files = _files_of(value)
    if not files:
        return f"{name!r} is {type_of(value)}: a {suffix} file is wanted"
    wrong = [file.name for file in files if file.path.suffix.lower() != suffix.lower()]
    empty = [file.name for file in files if not file.size]
    faults = [f"{', '.join(wrong)} where {suffix} is wanted"] if wrong else []
    faults += [f"{', '.join(empty)} without content"] if empty else []
    return f"{name!r} is {'; '.join(faults)}" if faults else ""


def lacking_services(graph: NodeGraph, services: Services) -> list[str]:
    """Return the services that a workflow's nodes need and that are not available."""
    types = {node.type for node in graph.nodes}
    needs = {
        TextToImage.type: (services.images, "no model makes images"),
        GoogleSearch.type: (services.search, "nothing searches the web"),
    }
    return [
        f"{what}, and a {kind} node needs that" for kind, (there, what) in needs.items() if kind in types and not there
    ]


def _not_its_own(error: OperadError, graph: NodeGraph) -> OperadError | None:
    """Return an error from outside the workflow (an endpoint, the search, an extra); None for its own fault."""
    chain = causes(error)
    failed = next((each.operator_id for each in reversed(chain) if isinstance(each, OperatorError)), "")
    searched = failed in graph.by_id and graph.by_id[failed].type == GoogleSearch.type
    for each in chain:
        if isinstance(each, MissingExtraError) or (isinstance(each, ModelError) and not isinstance(each, RequestError)):
            return each
        if isinstance(each, FetchError) and each.transient and searched:
            return each
    return None


def _files_of(value: Any) -> tuple[FileDescriptor, ...]:
    """The files that a result is; none where it is something else."""
    several = cast("Sequence[Any]", value) if isinstance(value, list | tuple) else (value,)
    return tuple(several) if all(isinstance(each, FileDescriptor) for each in several) else ()


def _with_wav(services: Services) -> Services:
    if services.speech is None or services.speech.format == "wav":
        return services
    return replace(services, speech=services.speech.model_copy(update={"format": "wav"}))
