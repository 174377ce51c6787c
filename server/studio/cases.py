"""Tests of a file: runs kept as cases beside it, and evaluations of its versions on them."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from operad.flows.formats.shapes import list_of
from operad.flows.node_graph import names_of
from operad.operators.secrets import known_secrets
from operad.operators.variables import VariableType, plain
from operad.runtime.evaluation.cases import Case, Dataset
from operad.runtime.evaluation.checks import Check, equals
from operad.runtime.evaluation.recording import case_of
from operad.runtime.evaluation.report import EvaluationReport
from operad.runtime.evaluation.results import ReportCase
from operad.runtime.events import RunFinished
from operad.runtime.models.addresses import without_key
from operad.runtime.values.errors import InputError, InvalidError, OperadError, describe, did_you_mean
from operad.runtime.values.file import FileDescriptor, unwritable, write_whole
from operad.runtime.values.message import NO_USAGE, WorkflowMessage, WorkflowStatus
from operad.runtime.values.secret import hide
from operad.runtime.values.text import short_line, shortened
from operad.server.studio.file_json import inputs_of
from operad.server.studio.files.open_file import OpenFile, StaleError
from operad.server.studio.requests import number, optional_text, text
from operad.server.studio.runs.kept import inputs_in_short
from operad.server.studio.runs.routes import Runs
from operad.server.studio.runs.run import StudioRun, usage_json
from operad.server.view.http import json_body, json_response

RECORDED, MODEL = "recorded", "model"
"""Origins of the answers in an evaluation: the scripts of the cases, or the model of the environment."""

MOST_VERSIONS = 10
"""Maximum number of evaluations of a file that are kept; the oldest are deleted."""

AT_ONCE = 4
"""Number of cases that run at the same time."""

LONGEST = 20_000
"""Maximum number of characters of an output that is sent to the browser."""

_OUTPUT, _ACCEPTED = "", "accepted"


def cases_file(path: Path) -> Path:
    """Return the file of a workflow's cases, which is beside it."""
    return path.with_name(f"{path.stem}.cases.jsonl")


@dataclass(frozen=True, slots=True)
class Recording:
    """A run that can become a case.

    Attributes:
        case: Its job and script.
        output: Its output.
        accepted: False if an evaluator of the workflow rejected it.
        outputs: The outputs of its nodes.
    """

    file: OpenFile
    case: Case
    output: Any
    accepted: bool
    outputs: Mapping[str, Mapping[str, Any]]


@dataclass
class Evaluating:
    """An evaluation in progress."""

    task: asyncio.Task[None]
    total: int
    answers: str
    done: int = 0


class Tests:
    """Cases of files, and their evaluations.

    Args:
        find: Function that returns the open file of a request.
        runs: Runs of the studio, which become cases.
        notify: Function that tells the open pages that the tests of a file have changed.

    Attributes:
        routes: The routes.
    """

    __test__ = False  # for pytest

    def __init__(self, find: Callable[[dict[str, Any]], OpenFile], runs: Runs, notify: Callable[[str], None]) -> None:
        self._find = find
        self._runs = runs
        self._notify = notify
        self._going: dict[str, Evaluating] = {}
        self._errors: dict[str, str] = {}
        self.routes = (
            Route("/data/runs/{run}/test", self._offer),
            Route("/data/runs/{run}/test", self._make, methods=["POST"]),
            Route("/data/tests", self._table),
            Route("/data/tests/compare", self._compare),
            Route("/data/tests/run", self._evaluate, methods=["POST"]),
            Route("/data/tests/cancel", self._cancel, methods=["POST"]),
            Route("/data/tests/remove", self._remove, methods=["POST"]),
        )

    async def close(self) -> None:
        """Cancel the evaluations; what is done is kept."""
        for each in self._going.values():
            each.task.cancel()
        await asyncio.gather(*(each.task for each in self._going.values()), return_exceptions=True)

    # A run as a case

    async def _offer(self, request: Request) -> Response:
        """Return what a test of a run can check, with a name for it."""
        run = await self._runs.find_run(request.path_params["run"])
        found = await asyncio.to_thread(self._recorded, run)
        file, case = found.file, found.case
        taken = {each.name for each in await asyncio.to_thread(_cases, file.path)}
        base = short_line(run.origin.inputs or case.job.goal, 40) or "case"
        name = next(each for each in (base, *(f"{base} {n}" for n in range(2, 10**6))) if each not in taken)
        judged = any(spec.type == "evaluator" for spec in file.content.graph.nodes)
        shown = run.files.shown
        places = [{"of": _OUTPUT, "title": "the output", "value": shown(found.output)}]
        judges = {spec.id for spec in file.content.graph.nodes if spec.type == "evaluator"}
        names = names_of(file.content.graph)
        titles = {node: name for node, name in names.items() if node not in judges}
        places += [
            {"of": f"{node}.{key}", "title": f"{titles[node]}: {key}", "value": shown(value)}
            for node, outputs in found.outputs.items()
            if node in titles
            for key, value in outputs.items()
            if not holds_files(value)
        ]
        return json_response(
            {
                "name": name,
                "file": cases_file(file.path).name,
                "answers": len(case.script),
                "pinned": [names[node] for node in run.origin.pinned if node in names],
                "places": places,
                "judged": judged,
                "accepted": found.accepted,
                "holds": _ACCEPTED if judged else "equals",
            }
        )

    async def _make(self, request: Request) -> Response:
        run = await self._runs.find_run(request.path_params["run"])
        body = await json_body(request)
        name, holds, of = text(body, "name").strip(), text(body, "holds"), optional_text(body, "of")

        def make() -> OpenFile:
            found = self._recorded(run)
            file, case = found.file, found.case
            if not name:
                raise InputError("name: give the test a name")
            if any(each.name == name for each in _cases(file.path)):
                raise InputError(f"name: there is a test {name!r} already; give another name")
            fields: dict[str, Any] = {**case.as_dict(), "name": name}
            fields.pop("expected", None)
            match holds:
                case "equals" if of == _OUTPUT:
                    fields["expected"] = hidden(found.output)
                case "equals":
                    fields["checks"] = [{"of": of, "equals": hidden(_value_at(of, found.outputs))}]
                case "contains":
                    wanted = text(body, "text")
                    if not wanted.strip():
                        raise InputError("text: write the text that the output contains")
                    fields["checks"] = [({"of": of} if of else {}) | {"contains": wanted}]
                case "accepted":
                    pass
                case _:
                    raise InputError("holds: is equals, contains or accepted")
            files = self._copied_files(file, run, case)
            if files:
                fields["files"] = files
                start = {each["name"] for each in inputs_of(file.content.graph) if "file" in each["type"]}
                fields["inputs"] = {key: value for key, value in fields.get("inputs", {}).items() if key not in start}
            Case.model_validate({key: value for key, value in fields.items() if key != "files"})
            _write_lines(cases_file(file.path), [*_lines(file.path), json.dumps(fields, ensure_ascii=False)])
            return file

        file = await asyncio.to_thread(make)
        self._errors.pop(file.name, None)
        self._notify(file.name)
        return json_response({"file": cases_file(file.path).name})

    def _recorded(self, run: StudioRun) -> Recording:
        """Return a run with its job, the answers of its model, and its outputs.

        Raises:
            InputError: The run is not a finished one of the whole workflow, or is not kept.
        """
        file = self._find({"path": run.file})
        if run.origin.only or run.origin.start:
            raise InputError("this is a run of a part; make a test of a run of the whole workflow")
        kept = self._runs.recorded(run)
        if kept is None:
            raise InputError("runs are not kept here, so the answers of the model are not known; see the list of runs")
        job, happened = kept
        try:
            case = case_of("case", job, happened, _hide())
        except ValueError as error:
            raise InputError(f"no test can be made of this run: {error}") from error
        case = case.model_copy(update={"steps": (), "accepted": None, "blame": (), "pinned": _pinned(file, run)})
        ended = next(event for event in reversed(happened) if isinstance(event, RunFinished) and not event.path).message
        outputs = {
            node: message.outputs or {"text": message.scratchpad} for node, message in run.values.messages.items()
        }
        return Recording(file, case, ended.value, ended.status is WorkflowStatus.SUCCESS, outputs)

    def _copied_files(self, file: OpenFile, run: StudioRun, case: Case) -> list[str]:
        """Copy the files of a run's inputs into a folder beside the workflow; return their paths.

        Raises:
            InputError: A file is gone, or a list of files comes before another input with files.
        """
        inputs = [each for each in inputs_of(file.content.graph) if "file" in each["type"]]
        if any(each["type"] == VariableType.ARRAY_FILE.value for each in inputs[:-1]):
            raise InputError("a list of files comes before another input with files; a case cannot tell them apart")
        found: list[Any] = list(case.job.files)
        start = next((each.id for each in file.content.graph.nodes if each.type == "start" and not each.parent), "")
        read = run.values.messages[start].outputs if start in run.values.messages else {}
        for each in inputs:
            value = read.get(each["name"])
            found += [one for one in (list_of(value) if isinstance(value, list) else [value]) if one is not None]
        names: list[str] = []
        folder = file.path.with_name(f"{file.path.stem}.files")
        for each in found:
            if not isinstance(each, FileDescriptor) or not each.path.is_file():
                raise InputError(f"a file of this run is gone: {getattr(each, 'name', each)}; run it again")
            try:
                folder.mkdir(exist_ok=True)
                digest = sha256(each.path.read_bytes()).hexdigest()[:8]  # files of the same name stay apart
                target = folder / f"{digest}-{Path(each.name).name}"
                shutil.copyfile(each.path, target)
            except OSError as error:
                raise InputError(f"{folder}: cannot be written: {error.strerror or error}") from error
            names.append(f"{folder.name}/{target.name}")
        return names

    # The table

    async def _table(self, request: Request) -> Response:
        return json_response(await asyncio.to_thread(self._told, self._find(dict(request.query_params))))

    def _told(self, file: OpenFile) -> dict[str, Any]:
        """Return the cases of a file, and the results of its versions."""
        cases, fault = list[Case](), ""
        try:
            cases = _cases(file.path)
        except InvalidError as error:
            fault = "; ".join(f"{issue.where}: {issue.message}" for issue in error.issues)
        except InputError as error:
            fault = str(error)
        going = self._going.get(file.name)
        return {
            "file": cases_file(file.path).name,
            "fault": fault,
            "cases": [_case_json(case) for case in cases],
            "versions": [_version_json(each, file) for each in _versions(file)],
            "running": going and {"done": going.done, "total": going.total, "answers": going.answers},
            "error": self._errors.get(file.name, ""),
        }

    async def _compare(self, request: Request) -> Response:
        named = dict(request.query_params)

        def compared() -> dict[str, Any]:
            known = {each.key: each for each in _versions(self._find(named))}
            keys = [text(named, "before"), text(named, "after")]
            if unknown := [key for key in keys if key not in known]:
                raise InputError(f"there is no evaluation {unknown[0]!r}; run the tests of that version")
            before, after = (known[key].report for key in keys)
            found = after.compare(before)
            rows = dict.fromkeys(each.name for each in (*before.cases, *after.cases))
            return {
                "better": found.better,
                "worse": found.worse,
                "differences": [
                    each.model_dump(mode="json") | {"change": each.change, "is_clear": each.is_clear}
                    for each in found.differences
                ],
                "cases": [
                    {"name": name, "results": [_full_result(report, name) for report in (before, after)]}
                    for name in rows
                ],
                "operators": _operators(before, after),
            }

        return json_response(await asyncio.to_thread(compared))

    async def _remove(self, request: Request) -> Response:
        body = await json_body(request)

        def remove() -> OpenFile:
            file, name = self._find(body), text(body, "name")
            known = _cases(file.path)
            if name not in {each.name for each in known}:
                raise InputError(f"there is no test {name!r}{did_you_mean(name, [each.name for each in known])}")
            _write_lines(cases_file(file.path), [line for line in _lines(file.path) if _name_in(line) != name])
            return file

        file = await asyncio.to_thread(remove)
        self._notify(file.name)
        return json_response(await asyncio.to_thread(self._told, file))

    # Evaluation

    async def _evaluate(self, request: Request) -> Response:
        body = await json_body(request)
        answers = text(body, "answers")
        if answers not in (RECORDED, MODEL):
            raise InputError(f"answers: is {RECORDED} or {MODEL}")

        def prepared() -> tuple[OpenFile, Dataset, Any, Path]:
            file = self._find(body)
            file.refresh()
            if number(body, "version") != file.version:
                raise StaleError(file, number(body, "version"))
            file.flush()
            cases, names = _cases(file.path), [str(name) for name in list_of(body.get("names"))]
            chosen = [case for case in cases if not names or case.name in names]
            if not chosen:
                raise InputError("there is no such test; make one of a run")
            agent = self._runs.agent_of(file)
            if answers == MODEL:
                agent.check_model()
            results = _results_of(file, answers)
            _forget(results, {case.name for case in chosen})
            return file, Dataset(cases=tuple(chosen)), agent, results

        if (name := optional_text(body, "path")) in self._going:
            raise InputError("the tests of this file are running; wait, or cancel them")
        file, dataset, agent, results = await asyncio.to_thread(prepared)
        if name in self._going:
            raise InputError("the tests of this file are running; wait, or cancel them")
        self._errors.pop(file.name, None)
        work = self._work(file, dataset, agent, results, answers)
        self._going[file.name] = Evaluating(asyncio.ensure_future(work), len(dataset), answers)
        self._notify(file.name)
        return json_response(await asyncio.to_thread(self._told, file))

    async def _work(self, file: OpenFile, dataset: Dataset, agent: Any, results: Path, answers: str) -> None:
        def progress(done: int, _total: int, _result: ReportCase) -> None:
            self._going[file.name].done = done
            self._notify(file.name)

        try:
            await agent.workflow.aevaluate(
                dataset,
                [equals],
                model=agent.reasoner,
                scripted=answers == RECORDED,
                results=results,
                max_concurrency=AT_ONCE,
                progress=progress,
            )
        except Exception as error:  # noqa: BLE001 - the error is shown in the browser
            self._errors[file.name] = describe(error)
        finally:
            self._going.pop(file.name, None)
            self._notify(file.name)

    async def _cancel(self, request: Request) -> Response:
        body = await json_body(request)
        if going := self._going.get(text(body, "path")):
            going.task.cancel()
            await asyncio.wait([going.task])
        return json_response({})


# Cases


def _hide() -> Callable[[str], str]:
    values = known_secrets()
    return lambda words: hide(without_key(words, ""), values)


def hidden(value: Any) -> Any:
    """Return a JSON value without secrets, and without texts that look like keys."""
    hide_in = _hide()

    def of(each: Any) -> Any:
        if isinstance(each, str):
            return hide_in(each)
        if isinstance(each, Mapping):
            return {key: of(item) for key, item in each.items()}  # pyright: ignore[reportUnknownVariableType]
        return [of(item) for item in each] if isinstance(each, list) else each  # pyright: ignore[reportUnknownVariableType]

    return of(plain(value))


def _pinned(file: OpenFile, run: StudioRun) -> dict[str, WorkflowMessage]:
    """Return the values that were pinned in a run, by the path of the node.

    Raises:
        InputError: One of them holds a file.
    """
    graph, found = file.content.graph, dict[str, WorkflowMessage]()
    for node in run.origin.pinned:
        message = run.values.messages.get(node)
        if message is None:
            continue  # it did not come to this node
        if holds_files(message.outputs):
            raise InputError(
                f"the pinned value of {names_of(graph).get(node, node)} holds a file; unpin it, and run again"
            )
        found["/".join([*reversed(graph.around(node)), node])] = message.changed(
            usage=NO_USAGE, scratchpad=hidden(message.scratchpad), outputs=hidden(message.outputs)
        )
    return found


def holds_files(value: Any) -> bool:
    """Return True if a value has files in it, which a case cannot compare."""
    if isinstance(value, Mapping):
        return any(map(holds_files, value.values()))  # pyright: ignore[reportUnknownArgumentType,reportUnknownMemberType]
    if isinstance(value, list | tuple):
        return any(map(holds_files, value))  # pyright: ignore[reportUnknownArgumentType]
    return isinstance(value, FileDescriptor)


def _value_at(place: str, messages: Mapping[str, Mapping[str, Any]]) -> Any:
    node, _, name = place.rpartition(".")
    if node not in messages or name not in messages[node]:
        places = [f"{node}.{name}" for node, outputs in messages.items() for name in outputs]
        raise InputError(f"of: the run has no output {place!r}{did_you_mean(place, places)}")
    return messages[node][name]


def _lines(path: Path) -> list[str]:
    try:
        found = cases_file(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{cases_file(path).name}: cannot be read: {error}") from error
    return [line for line in found.splitlines() if line.strip()]


def _name_in(line: str) -> str:
    try:
        return str(json.loads(line).get("name"))
    except (ValueError, AttributeError):
        return ""


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    write_whole(str(path), "".join(f"{line}\n" for line in lines).encode("utf-8", "replace"))


def _cases(path: Path) -> list[Case]:
    """Return the cases of a file; none if it has no file of cases."""
    return list(Dataset.load(cases_file(path))) if _lines(path) else []


def _case_json(case: Case) -> dict[str, Any]:
    return {
        "name": case.name,
        "inputs": inputs_in_short(case.job.inputs) or short_line(case.job.goal, 120),
        "holds": [*_expected_in_words(case), *map(_in_words, case.checks)] or ["the run succeeds and is accepted"],
        "answers": len(case.script),
        "pinned": len(case.pinned),
        "tags": list(case.tags),
    }


def _expected_in_words(case: Case) -> list[str]:
    return [f"the output is {_shown(case.expected)}"] if "expected" in case.model_fields_set else []


def _in_words(check: Check) -> str:
    what = check.of or "the output"
    if "equals" in check.model_fields_set:
        return f"{what} is {_shown(check.equals)}"
    return f"{what} contains {_shown(check.contains)}"


def _shown(value: Any) -> str:
    return short_line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str), 120)


# Versions


@dataclass(frozen=True, slots=True)
class Version:
    """Results of a version of a file.

    Attributes:
        key: Digest of the content, and the origin of the answers.
    """

    key: str
    digest: str
    answers: str
    at: float
    report: EvaluationReport


def _folder(file: OpenFile) -> Path:
    return file.history.folder / "tests"


def _results_of(file: OpenFile, answers: str) -> Path:
    step = file.history.step
    folder = _folder(file)
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise unwritable(str(folder), error) from error
    return folder / f"{step.digest if step else 'none'}.{answers}.jsonl"


def _forget(results: Path, names: set[str]) -> None:
    """Remove the results of cases that are to run again."""
    with suppress(FileNotFoundError):
        head, *lines = results.read_text(encoding="utf-8").splitlines() or [""]
        kept = [line for line in lines if str(json.loads(line).get("key")).rpartition("#")[0] not in names]
        if kept:
            _write_lines(results, [head, *kept])
        else:
            results.unlink()


def _versions(file: OpenFile) -> list[Version]:
    """Return the evaluations of a file, the newest first; older ones than the newest `MOST_VERSIONS` are deleted."""
    found: list[Version] = []
    paths = sorted(_folder(file).glob("*.jsonl"), key=lambda path: -path.stat().st_mtime)
    for path in paths[MOST_VERSIONS:]:
        path.unlink(missing_ok=True)
    for path in paths[:MOST_VERSIONS]:
        digest, _, answers = path.stem.partition(".")
        with suppress(OperadError):  # cut off, as the studio was killed
            report = EvaluationReport.load(path)
            if report.cases:
                found.append(Version(path.stem, digest, answers, path.stat().st_mtime, report))
    return found


def _version_json(version: Version, file: OpenFile) -> dict[str, Any]:
    step = next((each for each in reversed(file.history.steps) if each.digest == version.digest), None)
    now = file.history.step
    report = version.report
    return {
        "key": version.key,
        "answers": version.answers,
        "at": version.at,
        "step": step.number if step else 0,
        "title": step.title if step else "an earlier version",
        "current": now is not None and now.digest == version.digest,
        "passed": report.passed,
        "runs": len(report.cases),
        "usage": usage_json(report.usage),
        "results": {case.name: _result_json(case) for case in report.cases},
        "operators": [
            {
                "name": each.name,
                "blamed": each.blamed,
                "blamed_in_rounds": each.blamed_in_rounds,
                "runs": each.runs,
                "seconds": each.seconds,
                "usage": usage_json(each.usage),
            }
            for each in report.operators
            if not each.name.startswith("<")
        ],
    }


def _result_json(case: ReportCase) -> dict[str, Any]:
    scores = {each.name: each.score for each in case.evaluators if each.score is not None}
    return {
        "passed": case.passed,
        "problems": [short_line(problem, 1_000) for problem in case.problems],
        "scores": scores,
        "rounds": case.rounds,
        "seconds": case.seconds,
        "usage": usage_json(case.usage),
    }


def _full_result(report: EvaluationReport, name: str) -> dict[str, Any] | None:
    found = next((case for case in report.cases if case.name == name), None)
    if found is None:
        return None
    output = found.output if isinstance(found.output, str) else json.dumps(found.output, ensure_ascii=False, indent=1)
    cut = shortened(output, LONGEST)
    return _result_json(found) | {"output": "" if found.output is None else cut}


def _operators(*reports: EvaluationReport) -> list[dict[str, Any]]:
    """Return each operator with its work in two reports."""
    names = dict.fromkeys(each.name for report in reports for each in report.operators if not each.name.startswith("<"))
    found = [{each.name: each for each in report.operators} for report in reports]
    return [
        {
            "name": name,
            "results": [
                by_name[name].model_dump(mode="json", include={"runs", "blamed", "blamed_in_rounds", "seconds"})
                | {"usage": usage_json(by_name[name].usage)}
                if name in by_name
                else None
                for by_name in found
            ],
        }
        for name in names
    ]
