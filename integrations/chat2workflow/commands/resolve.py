"""`operad evaluate resolve`: responses of Chat2Workflow, run on their test cases and judged."""

from __future__ import annotations

import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from math import inf
from pathlib import Path
from typing import Annotated, Any

import typer

from operad.cli.evaluate.work import Result, ResultsFile, Work, evaluate
from operad.cli.generate_run import services_for
from operad.cli.tables import Plot, Report, check_plot, show
from operad.configs.flow import read_file
from operad.configs.models import names_endpoint
from operad.integrations.chat2workflow.commands.responses import (
    DatasetFolder,
    NamedResponse,
    RatesPlot,
    ResponseFiles,
    judging_model,
    named_responses,
)
from operad.integrations.chat2workflow.pass_rate import STEPS
from operad.integrations.chat2workflow.rates import Outcome, by_category, by_round, grouped
from operad.integrations.chat2workflow.resolve_rate import (
    MAX_REASON,
    SECONDS,
    CaseVerdict,
    files_of,
    graph_of,
    lacking_services,
    missing_files,
)
from operad.integrations.chat2workflow.resolve_rate import resolve as run_case
from operad.integrations.chat2workflow.scores import Case, Dataset, PassVerdict, Record, Subtask, read_dataset, read_run
from operad.integrations.chat2workflow.scores import judge as judge_response
from operad.operators import Services
from operad.operators.nodes.files import TextToImage, TextToSpeech
from operad.operators.nodes.sources import GoogleSearch
from operad.runtime.evaluation.tables import Cell, Table
from operad.runtime.models.resolve import resolve_model
from operad.runtime.reasoning.reasoner import MonoModelReasoner, Reasoner
from operad.runtime.values.errors import InputError, InvalidError, did_you_mean, shorten
from operad.runtime.values.file import FileDescriptor
from operad.runtime.values.message import NO_USAGE, Usage

# The resolve rates as tables, JSON and pictures.

_RUN_STEPS = ("2_1", "2_2", "2_3")
_NO_RESULT = ("no file", "no service", "no verdict")
"""Prefixes of the reasons why a test case has no result."""

Items = Sequence[Mapping[str, Any]]
Rates = Mapping[str, float | None]


def report_of(items: Items, settings: Mapping[str, Any]) -> Report:
    """Return the report on the results of test cases.

    The rates count test cases with a result; the others are counted separately. A model with several runs also has
    their mean.
    """
    outcomes = [
        Outcome(item["model"], item["run"], item["category"], item["round"], item["resolved"])
        for item in items
        if item["resolved"] is not None
    ]
    models = grouped(outcomes, lambda outcome: outcome.model)
    means = {
        f"{model}: mean of {count} runs": found
        for model, found in models.items()
        if (count := len({outcome.run for outcome in found})) > 1
    }
    named = {**grouped(outcomes, lambda outcome: outcome.run), **means}
    runs: dict[str, list[Mapping[str, Any]]] = {}
    for item in items:
        runs.setdefault(item["run"], []).append(item)
    domains, rounds = _domains(named), _rounds(named)
    counts = {run: _counts(found) for run, found in runs.items()}
    return Report(
        {"settings": dict(settings), "domains": domains, "rounds": rounds, "counts": counts},
        items,
        [
            _rates("Resolve rate, by domain, %", domains),
            _rates("Resolve rate, by round, %", rounds),
            _ends(counts),
            _costs(counts),
        ],
        [
            _plot("Resolve rate, by domain", "domain", _domains(models)),
            _plot("Resolve rate, by round", "round", _rounds(models), lines=True),
        ],
    )


def _domains(named: Mapping[str, Sequence[Outcome]]) -> dict[str, Rates]:
    return {name: by_category(found) for name, found in named.items()}


def _rounds(named: Mapping[str, Sequence[Outcome]]) -> dict[str, Rates]:
    return {name: {str(number): rate for number, rate in by_round(found).items()} for name, found in named.items()}


def _counts(items: Items) -> dict[str, Any]:
    steps = (*STEPS, *_RUN_STEPS)
    usage = sum((Usage.model_validate(each["usage"]) for each in items), NO_USAGE)
    return {
        "cases": len(items),
        "resolved": sum(item["resolved"] is True for item in items),
        "steps": {step: sum(each["step"] == step and each["resolved"] is False for each in items) for step in steps},
        "not_told": {
            why: sum(each["resolved"] is None and each["reason"].startswith(why) for each in items)
            for why in _NO_RESULT
        },
        "usage": usage.model_dump(mode="json", exclude={"seconds"}),
        "seconds": round(sum(each["seconds"] for each in items), 3),
    }


def _rates(title: str, rates: Mapping[str, Rates]) -> Table:
    names = list(dict.fromkeys(name for found in rates.values() for name in found))
    rows: list[list[Cell]] = [[name, *(found.get(column) for column in names)] for name, found in rates.items()]
    return Table(title, ["run", *names], rows)


def _ends(counts: Mapping[str, Any]) -> Table:
    rows: list[list[Cell]] = [
        [run, found["cases"], found["resolved"], *found["steps"].values(), *found["not_told"].values()]
        for run, found in counts.items()
    ]
    steps = [step.replace("_", ".") for step in (*STEPS, *_RUN_STEPS)]
    return Table("Where test cases end", ["run", "cases", "resolved", *steps, *_NO_RESULT], rows)


def _costs(counts: Mapping[str, Any]) -> Table:
    rows: list[list[Cell]] = []
    for run, found in counts.items():
        usage = Usage.model_validate(found["usage"])
        rows.append([run, usage.calls, usage.prompt_tokens, usage.completion_tokens, usage.money()])
    columns = ["run", "model calls", "tokens read", "tokens written", "cost"]
    return Table("What models were asked, the judge included", columns, rows)


def _plot(title: str, axis: str, rates: Mapping[str, Rates], *, lines: bool = False) -> Plot:
    places = list(dict.fromkeys(place for found in rates.values() for place in found))
    series = {name: [found.get(place) for place in places] for name, found in rates.items()}
    return Plot(title, axis, places, series, lines)


_UNSAFE = re.compile(r"[^\w-]+")


def resolve(
    runs: ResponseFiles,
    dataset: DatasetFolder,
    files: Annotated[Path | None, typer.Option(help="The folder with the files of the test cases.")] = None,
    model: Annotated[str | None, typer.Option(help="Name of the model for the workflows.")] = None,
    base_url: Annotated[str | None, typer.Option(help="Its OpenAI-compatible endpoint, with /v1.")] = None,
    judge_model: Annotated[str | None, typer.Option(help="Name of the judging model; by default the same.")] = None,
    judge_base_url: Annotated[str | None, typer.Option(help="Its endpoint; by default the same.")] = None,
    vision: Annotated[
        bool,
        typer.Option(
            "--vision", help="The model for the workflows accepts images, though that is not known by its name."
        ),
    ] = False,
    services_file: Annotated[
        Path | None, typer.Option("--services", help="YAML file of external services for nodes.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="A task, or a round of one: TASK or TASK_ROUND. Repeatable.")
    ] = None,
    at_once: Annotated[int, typer.Option(min=1, help="Number of test cases run at the same time.")] = 1,
    seconds: Annotated[float, typer.Option(help="Time limit of a workflow for a test case, in seconds.")] = SECONDS,
    out: ResultsFile = None,
    keep: Annotated[
        Path | None, typer.Option(help="Folder for files that workflows create; by default they are removed.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    plot: RatesPlot = None,
) -> None:
    """Run the workflows of responses on the test cases of Chat2Workflow: the resolve rate (algorithm 2).

    A response that fails a step of the pass rate is not run, and counts as unresolved. A test case whose file is
    missing is left out, for all responses; so is a response that needs a missing service.
    """
    if not 0 < seconds < inf:
        raise InputError(f"--seconds {seconds:g}: must be more than 0, and finite")
    check_plot(plot)
    data = read_dataset(dataset)
    chosen = _requested_rounds(only or (), data)
    read = named_responses([read_run(path, data) for path in runs], data)
    responses = [each for each in read if each.record.key in chosen]
    if not responses:
        raise InputError(f"no response answers {shorten(list(only or chosen))}")
    _check_folder("--files", files, must_exist=True)
    _check_folder("--keep", keep, must_exist=False)
    cases = {(each.record.key, case.name): case for each in responses for case in each.subtask.cases}
    _warn_of_missing_files(list(cases.values()), files)
    workflow_model = resolve_model(model, base_url).model_copy(update={"vision": vision or None})
    judge_url = judge_base_url or (None if judge_model and names_endpoint(judge_model, base_url) else base_url)
    judge = judging_model(judge_model or model, judge_url, "--judge-model, --judge-base-url")
    services = services_for(services_file, trust=False)
    _warn_of_missing_services([each.record for each in responses], services)
    settings = {
        "evaluation": "chat2workflow resolve",
        "model": workflow_model.describe(),
        "vision": vision,
        "judge": judge.describe(),
        "seconds": seconds,
        "services": services_file and sha256(read_file(services_file)).hexdigest(),
    }
    trials = Trials(MonoModelReasoner(workflow_model), MonoModelReasoner(judge), services, files, keep, seconds)
    results = evaluate([item for each in responses for item in trials.work(each)], settings, out, at_once=at_once)
    show(report_of(results, settings), as_json=as_json, plot=plot)


@dataclass(frozen=True, slots=True)
class Trials:
    """Settings for running responses.

    Attributes:
        reasoner: Reasoner of the workflows.
        judge: Reasoner that judges their outputs.
        services: External services of their nodes.
        files: Folder with the files of test cases.
        keep: Folder for files that workflows create, with a folder per test case; None to remove them.
        seconds: Time limit of a workflow for a test case.
    """

    reasoner: Reasoner
    judge: Reasoner
    services: Services
    files: Path | None
    keep: Path | None
    seconds: float

    def work(self, named: NamedResponse) -> Iterator[Work]:
        """Yield an item for each test case of a response."""
        record, subtask = named.record, named.subtask
        passed = judge_response(record.response, subtask)
        for case in subtask.cases:
            key = f"{named.name} {record.key} {case.name}"
            about = {**named.described(), "case": case.name}
            score = partial(self._score, key, about, record, subtask, case, passed)
            yield Work(key, self._content(record, subtask, case), score)

    async def _score(
        self, key: str, about: Mapping[str, Any], record: Record, subtask: Subtask, case: Case, passed: PassVerdict
    ) -> Result:
        if missing := missing_files([case], self.files):
            return {**about, **_figures(CaseVerdict(None, None, f"no file: {', '.join(missing)}"))}
        if not passed.passed:
            return {**about, **_figures(CaseVerdict(False, None, passed.reason[:MAX_REASON])), "step": passed.fail_step}
        with self._folder(key) as folder:
            verdict = await run_case(
                record.response.text,
                case,
                subtask,
                reasoner=self.reasoner,
                judge=self.judge,
                services=replace(self.services, folder=Path(folder)),
                folder=self.files,
                seconds=self.seconds,
            )
        return {**about, **_figures(verdict)}

    def _folder(self, key: str) -> AbstractContextManager[str | Path]:
        if self.keep is None:
            return tempfile.TemporaryDirectory(prefix="operad-", ignore_cleanup_errors=True)
        return nullcontext(self.keep.absolute() / _UNSAFE.sub("_", key))

    def _content(self, record: Record, subtask: Subtask, case: Case) -> bytes:
        """Return everything that the result of a test case depends on."""
        existing = sorted(set(files_of(case)) - set(missing_files([case], self.files)))
        fingerprints = (
            {name: FileDescriptor.of(self.files / name).fingerprint() for name in existing} if self.files else {}
        )
        key = [subtask.instructions, subtask.outputs, subtask.key_nodes, subtask.files]
        return repr([record.response.text, key, case, fingerprints, self._used_services(record.response.text)]).encode(
            errors="backslashreplace"
        )

    def _used_services(self, response: str) -> list[str | None]:
        """Return descriptions of the services that a response may need; None for a missing service."""
        images, speech, search = self.services.images, self.services.speech, self.services.search
        described = {
            TextToImage.type: images.describe() if images else None,
            TextToSpeech.type: speech.describe() if speech else None,
            GoogleSearch.type: type(search).__name__ if search else None,
        }
        return [description for kind, description in described.items() if f'"{kind}"' in response]


def _figures(verdict: CaseVerdict) -> dict[str, Any]:
    return {
        "resolved": verdict.resolved,
        "step": verdict.step,
        "reason": verdict.reason,
        "seconds": round(verdict.seconds, 3),
        "usage": verdict.usage.model_dump(mode="json", exclude={"seconds"}),
    }


def _requested_rounds(only: Sequence[str], data: Dataset) -> set[str]:
    """Return the keys of the requested rounds; all by default."""
    tasks: dict[str, list[str]] = {}
    for key, subtask in data.subtasks.items():
        tasks.setdefault(subtask.task, []).append(key)
    known = {**tasks, **{key: [key] for key in data.subtasks}}
    if unknown := [f"{name!r}{did_you_mean(name, known)}" for name in only if name not in known]:
        raise InputError(f"--only: the dataset has no {', '.join(unknown)}")
    return {key for name in only for key in known[name]} if only else set(data.subtasks)


def _warn_of_missing_files(cases: Sequence[Case], files: Path | None) -> None:
    """Print which files are missing, before anything is run."""
    missing = missing_files(cases, files)
    if not missing:
        return
    without = sum(bool(missing_files([case], files)) for case in cases)
    where = f"in --files {files}" if files else "as --files names no folder"
    print(
        f"{without} of {len(cases)} test cases are left out, because these {len(missing)} files are missing, {where}:",
        *(f"  {name}" for name in missing),
        sep="\n",
        file=sys.stderr,
    )


def _warn_of_missing_services(records: Sequence[Record], services: Services) -> None:
    """Print how many responses need a missing service, before anything is run."""
    found: Counter[str] = Counter()
    for record in records:
        with suppress(InvalidError):
            found.update(lacking_services(graph_of(record.response.text), services))
    for fault, count in found.items():
        print(f"{count} of {len(records)} responses are not run: {fault}; see --services", file=sys.stderr)


def _check_folder(option: str, folder: Path | None, *, must_exist: bool) -> None:
    if folder is not None and not folder.is_dir() and (must_exist or folder.exists()):
        raise InputError(
            f"{option} {folder}: is not a folder" if folder.exists() else f"{option} {folder}: is not there"
        )
