"""`operad evaluate pass`: responses of Chat2Workflow, generated if missing, judged by the steps of its pass rate."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Annotated, Any

import typer

from operad.cli.evaluate.work import Result, ResultsFile, Work, evaluate, process_all, progress
from operad.cli.tables import Plot, Report, check_plot, show
from operad.cli.trust_store import Trusted, trusting
from operad.configs.generation import DESIGNER, NOTHING, Design, Designer
from operad.flows.formats.chat2workflow import dump, load
from operad.flows.generation.offer import CHAT2WORKFLOW_OFFER
from operad.flows.node_graph import NodeGraph
from operad.flows.repair import repair
from operad.integrations.chat2workflow.commands.responses import (
    DatasetFolder,
    NamedResponse,
    RatesPlot,
    ResponseFiles,
    judging_model,
    named_responses,
)
from operad.integrations.chat2workflow.consistency import judge_consistency
from operad.integrations.chat2workflow.pass_rate import STEPS, judge
from operad.integrations.chat2workflow.rates import Outcome, by_category, by_round, grouped, rate
from operad.integrations.chat2workflow.scores import Dataset, Response, Run, Subtask, read_dataset, read_run
from operad.runtime.evaluation.tables import Cell, Table
from operad.runtime.reasoning.reasoner import MonoModelReasoner, Reasoner
from operad.runtime.values.errors import AnswerError, InputError, InvalidError, OperatorError
from operad.runtime.values.json_lines import add_line

# The pass rates as tables, JSON and pictures.

Items = Sequence[Mapping[str, Any]]
Rates = Callable[[Sequence[Outcome]], Mapping[Any, float | None]]

_RATES: Mapping[str, tuple[str, Callable[[Mapping[str, Any]], bool]]] = {
    "passed": ("Pass rate, steps 1 to 4", lambda item: item["passed"]),
    "sound": ("Sound", lambda item: item["sound"]),
    "judged": ("Pass rate with the judge", lambda item: item.get("consistent", False)),
}
"""Rates by their names in JSON: the displayed name, and the counted field."""


def report_of(items: Items, settings: Mapping[str, Any]) -> Report:
    """Return the report on the results of responses.

    Args:
        items: The results.
        settings: Settings of the evaluation; without a judge, there is no rate of it.
    """
    shown = [name for name in _RATES if name != "judged" or settings["judge"]]
    outcomes = {name: _outcomes(items, _RATES[name][1]) for name in shown}
    return Report(
        {
            "settings": dict(settings),
            "runs": _figures(items, outcomes, "run"),
            "models": _figures(items, outcomes, "model"),
        },
        items,
        [
            _steps(items),
            *(_table(f"{_RATES[name][0]}, by domain, %", outcomes[name], by_category) for name in shown),
            *(_table(f"{_RATES[name][0]}, by round, %", outcomes[name], by_round) for name in shown),
        ],
        [
            *(_plot(f"{_RATES[name][0]}, by round", "round", outcomes[name], by_round, lines=True) for name in shown),
            *(_plot(f"{_RATES[name][0]}, by domain", "domain", outcomes[name], by_category) for name in shown),
        ],
    )


def _outcomes(items: Items, good: Callable[[Mapping[str, Any]], bool]) -> list[Outcome]:
    return [Outcome(item["model"], item["run"], item["category"], item["round"], good(item)) for item in items]


def _key_of(by: str) -> Callable[[Outcome], str]:
    return lambda outcome: outcome.run if by == "run" else outcome.model


def _figures(items: Items, outcomes: Mapping[str, Sequence[Outcome]], by: str) -> dict[str, Any]:
    """Return all rates of each run or model; the rates by domain end with their average."""
    figures: dict[str, Any] = {}
    for name in dict.fromkeys(item[by] for item in items):
        own_outcomes = {rated: grouped(each, _key_of(by))[name] for rated, each in outcomes.items()}
        found = [item for item in items if item[by] == name]
        figures[name] = {
            "responses": len(found),
            "fail_steps": _fail_steps(found),
            **{rated: rate(each) for rated, each in own_outcomes.items()},
            "by_category": {rated: by_category(each) for rated, each in own_outcomes.items()},
            "by_round": {
                rated: {str(round_number): value for round_number, value in by_round(each).items()}
                for rated, each in own_outcomes.items()
            },
        }
    return figures


def _fail_steps(items: Items) -> dict[str, int]:
    counts = Counter(item["fail_step"] for item in items)
    return {step: counts[step] for step in STEPS}


def _steps(items: Items) -> Table:
    rows: list[list[Cell]] = []
    for name in dict.fromkeys(item["run"] for item in items):
        found = [item for item in items if item["run"] == name]
        both = sum(item["passed"] and item["sound"] for item in found)
        passed, sound = sum(item["passed"] for item in found), sum(item["sound"] for item in found)
        rows.append([name, len(found), *_fail_steps(found).values(), passed, sound, both])
    columns = ["run", "responses", *(f"fail {step}" for step in STEPS), "passed", "sound", "passed and sound"]
    return Table("Responses by the first step that they fail", columns, rows)


def _table(title: str, outcomes: Sequence[Outcome], rates: Rates) -> Table:
    """Return a table with a row for each run, and for each model with several runs a row with their mean."""
    names = list(rates(outcomes))
    rows: list[list[Cell]] = []
    for model, of_model in grouped(outcomes, _key_of("model")).items():
        runs = grouped(of_model, _key_of("run"))
        rows += [[run, *map(rates(run_outcomes).get, names)] for run, run_outcomes in runs.items()]
        if len(runs) > 1:
            rows.append([f"{model}: mean of {len(runs)} runs", *map(rates(of_model).get, names)])
    models = grouped(outcomes, _key_of("model"))
    if len(models) > 1:
        each_of = [rates(run_outcomes) for run_outcomes in models.values()]
        rows.append(
            [
                f"mean of {len(models)} models",
                *(_mean([run_outcomes.get(name) for run_outcomes in each_of]) for name in names),
            ]
        )
    return Table(title, ["run", *map(str, names)], rows)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _plot(title: str, axis: str, outcomes: Sequence[Outcome], rates: Rates, *, lines: bool = False) -> Plot:
    names = list(rates(outcomes))
    series = {
        model: [rates(model_outcomes).get(name) for name in names]
        for model, model_outcomes in grouped(outcomes, _key_of("model")).items()
    }
    return Plot(title, axis, [str(name) for name in names], series, lines)


def pass_rate(
    runs: ResponseFiles,
    dataset: DatasetFolder,
    ask_judge: Annotated[
        bool, typer.Option("--judge", help="Also ask a model if passing workflows follow their design principle.")
    ] = False,
    generate: Annotated[
        bool, typer.Option("--generate", help="First generate the responses that RUN.jsonl lacks.")
    ] = False,
    designer: Annotated[str, typer.Option(help="With --generate: configuration of the expert.")] = DESIGNER,
    model: Annotated[str | None, typer.Option(help="Name of the model that responds or judges.")] = None,
    base_url: Annotated[str | None, typer.Option(help="Its OpenAI-compatible endpoint, with /v1.")] = None,
    mend: Annotated[
        bool, typer.Option("--repair", help="Repair responses first, by the rules of operad repair.")
    ] = False,
    at_once: Annotated[int, typer.Option(min=1, help="Number of responses generated or judged at the same time.")] = 1,
    out: ResultsFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    plot: RatesPlot = None,
    trust: Trusted = False,
) -> None:
    """Judge responses by the pass rate of Chat2Workflow (algorithm 1), and by the soundness of their workflows.

    Steps 1 to 4 need no model: format, conversion, variables, nodes. A workflow without a static fault is sound. Runs
    whose files have the same name are runs of one model; the mean of their rates is shown.
    """
    check_plot(plot)
    if not (ask_judge or generate) and (model or base_url):
        raise InputError("--model and --base-url apply to --judge and --generate: add one of these, or leave them out")
    if generate and len(runs) != 1:
        raise InputError(f"--generate makes one run, not {len(runs)}; name one file, such as RUN.jsonl")
    judge_model = judging_model(model, base_url, "--model, --base-url") if ask_judge else None
    data = read_dataset(dataset)
    if generate:
        expert = trusting(
            lambda trusted: Designer(
                config=designer, model_name=model, base_url=base_url, trust=trusted, offer=CHAT2WORKFLOW_OFFER
            ),
            trust,
        )
        generate_run(runs[0], data, expert, at_once=at_once)
    read = [read_run(path, data) for path in runs]
    _warn_of_incomplete(read, data)
    settings = {"evaluation": "chat2workflow pass", "repair": mend, "judge": judge_model and judge_model.describe()}
    reasoner = MonoModelReasoner(judge_model) if judge_model else None
    work = [_work_item(named, reasoner, mend=mend) for named in named_responses(read, data)]
    results = evaluate(work, settings, out, at_once=at_once)
    show(report_of(results, settings), as_json=as_json, plot=plot)


def _warn_of_incomplete(runs: Sequence[Run], data: Dataset) -> None:
    for run in runs:
        if len(run.records) < len(data.subtasks):
            answered = f"{len(run.records)} of {len(data.subtasks)} instructions"
            print(f"{run.path}: answers {answered}; its rates are of these", file=sys.stderr)


def _work_item(named: NamedResponse, reasoner: Reasoner | None, *, mend: bool) -> Work:
    about, response, subtask = named.described(), named.record.response, named.subtask
    content = json.dumps([about, asdict(response), asdict(subtask)], ensure_ascii=True).encode()
    return Work(
        f"{named.run.path} {named.record.key}", content, partial(_score, about, response, subtask, reasoner, mend=mend)
    )


async def _score(
    about: Mapping[str, Any], response: Response, subtask: Subtask, reasoner: Reasoner | None, *, mend: bool
) -> Result:
    repair_fields: dict[str, Any] = {}
    if mend:
        repaired = repair(response.text)
        repair_fields["repairs"] = [each._asdict() for each in repaired.repairs]
        response = Response.of(repaired.text) if repaired.repairs else response
    verdict = judge(response, subtask)
    result = {
        **about,
        **repair_fields,
        "passed": verdict.passed,
        "fail_step": verdict.fail_step,
        "reason": verdict.reason,
        "sound": verdict.sound,
        "issues": [asdict(issue) for issue in verdict.issues],
    }
    if reasoner is None or not verdict.passed:
        return result
    try:
        judgement = await judge_consistency(reasoner, response, subtask)
    except AnswerError as error:  # counts as not consistent; other responses are not affected
        return {**result, "consistent": False, "judged": f"no verdict: {error}"}
    return {**result, "consistent": judgement.consistent, "judged": judgement.reason}


_Records = dict[str, dict[str, Any]]


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


def _read_records(path: Path) -> _Records:
    """Return the responses in a file; an incomplete last line is removed from the file.

    Raises:
        InputError: The file holds something else; it is left unchanged.
        OSError: The file cannot be read.
    """
    if not path.exists():
        return {}
    records: _Records = {}
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


def _progress_text(path: Path, done: _Records, data: Dataset) -> str:
    done_text = f"{len(done)} of {len(data.subtasks)} responses are made"
    return f"{done_text} and kept in {path}; the same command continues from there"
