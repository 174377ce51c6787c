"""`operad evaluate pass`: responses of Chat2Workflow, judged by the steps of its pass rate."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Annotated, Any

import typer

from operad.cli.evaluate.work import Result, ResultsFile, Work, evaluate
from operad.cli.tables import check_plot, show
from operad.cli.trust_store import Trusted, trusting
from operad.configs.generation import DESIGNER, Designer
from operad.flows.generation.offer import CHAT2WORKFLOW_OFFER
from operad.flows.repair import PROFILES, repair
from operad.integrations.chat2workflow.commands.generating import generate_run
from operad.integrations.chat2workflow.commands.pass_report import report_of
from operad.integrations.chat2workflow.commands.responses import (
    DatasetFolder,
    NamedResponse,
    RatesPlot,
    ResponseFiles,
    judging_model,
    named_responses,
)
from operad.integrations.chat2workflow.consistency import judge_consistency
from operad.integrations.chat2workflow.pass_rate import judge
from operad.integrations.chat2workflow.scores import Dataset, Response, Run, Subtask, read_dataset, read_run
from operad.runtime.reasoning.reasoner import MonoModelReasoner, Reasoner
from operad.runtime.values.errors import AnswerError, InputError


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
        bool, typer.Option("--repair", help="Repair responses first, by the rules of the profile chat2workflow.")
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
        repaired_response = repair(response.text, subtask.instructions, PROFILES["chat2workflow"])
        repaired_format = repair(response.text, subtask.instructions, PROFILES["format"])
        verdict_without_contract = judge(
            Response.of(repaired_format.text) if repaired_format.repairs else response, subtask
        )
        repair_fields = {
            "repairs": [each._asdict() for each in repaired_response.repairs],
            "passed_without_contract": verdict_without_contract.passed,
        }
        response = Response.of(repaired_response.text) if repaired_response.repairs else response
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
