"""The command `operad optimise`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from operad.cli.interruptible import ctrl_c_raises
from operad.cli.options import BaseUrl, ModelName, PricesFile
from operad.cli.progress import used
from operad.cli.tables import Report, show
from operad.cli.trust_store import Trusted, trusting
from operad.configs.capabilities import Trust
from operad.configs.flow import is_configuration, read_file
from operad.configs.loader import Configuration, load
from operad.configs.optimise.folder import BEST
from operad.configs.optimise.search import AT_ONCE, ROUNDS, Optimised, aoptimise, proposing
from operad.configs.optimise.state import Candidate
from operad.configs.optimise.tasks import read_tasks
from operad.runtime.evaluation.tables import Table
from operad.runtime.reasoning.reasoner import Reasoner
from operad.runtime.values.errors import InputError
from operad.runtime.values.message import Usage
from operad.runtime.values.text import printable

EXIT_INTERRUPTED = 130


def optimise(
    expert: Annotated[Path, typer.Argument(metavar="EXPERT.yaml", help="A configuration file.")],
    tasks: Annotated[Path, typer.Option(help="Tasks with the verification of their answers: JSON lines, or YAML.")],
    out: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FOLDER", help="Folder of the search; by default, NAME.optimised."),
    ] = None,
    budget: Annotated[int | None, typer.Option(help="Maximum number of tokens for the search.")] = None,
    rounds: Annotated[
        int, typer.Option(min=0, help="Number of changes to try; 0 scores the expert as it is.")
    ] = ROUNDS,
    sample: Annotated[
        int | None, typer.Option(help="Number of random tasks on which each change is tried; by default, all.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of random choices.")] = 0,
    at_once: Annotated[int, typer.Option(help="Number of tasks at once.")] = AT_ONCE,
    name: Annotated[str | None, typer.Option("--expert", help="Name of the expert; by default, the only one.")] = None,
    model: ModelName = None,
    base_url: BaseUrl = None,
    prices: PricesFile = None,
    proposer_model: Annotated[
        str | None, typer.Option(help="The model that proposes changes and judges answers; by default the same.")
    ] = None,
    proposer_base_url: Annotated[str | None, typer.Option(help="Its endpoint; by default the same.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all candidates as JSON.")] = False,
    trust: Trusted = False,
) -> None:
    """Search for a better workflow of an expert: a model proposes changes, tasks score them.

    The folder keeps each step, the best workflow (best.yaml) and the tree of candidates (tree.svg); the same
    command continues from there. The candidates go to stdout; progress and errors go to stderr. Exit status:
    0, also if no better workflow was found; 2 bad input or an error; 130 interrupted.
    """
    _refuse_node_workflow(expert)

    def loaded(trusted: Trust) -> tuple[Configuration, Trust]:
        read_tasks(tasks, trust=trusted)
        return load(expert, trust=trusted), trusted

    configuration, trusted = trusting(loaded, trust)
    work = aoptimise(
        expert,
        tasks,
        out=out,
        name=name,
        rounds=rounds,
        budget=budget,
        sample=sample,
        seed=seed,
        at_once=at_once,
        **_chosen_reasoners(configuration, name, (model, base_url), (proposer_model, proposer_base_url)),
        tell=lambda line: print(printable(line), file=sys.stderr, flush=True),
        trust=trusted,
    )
    try:
        with ctrl_c_raises():
            found = asyncio.run(work)
    except KeyboardInterrupt:
        print("operad: interrupted", file=sys.stderr)
        raise SystemExit(EXIT_INTERRUPTED) from None
    show(report(found), as_json=as_json, plot=None)
    if not as_json:
        print(_summary_text(found))


def _refuse_node_workflow(file: Path) -> None:
    data = read_file(file)
    if is_configuration(data):
        return
    from operad.flows.formats.table import find_format  # not at import: experts need no formats

    if find_format(data) is not None:
        raise InputError(f"{file}: is a node workflow; operad optimise takes experts")


def report(found: Optimised) -> Report:
    """Return the report of a search, the best candidates first."""
    ranked = found.state.ranked(found.tasks)
    summary = {
        "best": found.best.number,
        "score": found.best.final,
        "baseline": found.baseline.final,
        "improved": found.improved,
        "stopped": found.stopped,
        "steps": found.state.steps,
        "folder": str(found.folder),
        "usage": _usage_json(found.state.usage),
    }
    rows = [
        (
            candidate.number,
            escape(printable(candidate.change)),
            candidate.step.parent,
            f"{candidate.final:.3f}",
            len(candidate.results),
            candidate.step.usage.tokens,
        )
        for candidate in ranked
    ]
    table = Table("What was tried", ("candidate", "change", "of", "score", "tasks", "tokens"), rows)
    return Report(summary, [_as_json(candidate) for candidate in ranked], [table])


def _as_json(candidate: Candidate) -> dict[str, Any]:
    step = candidate.step
    return {
        "number": candidate.number,
        "parent": step.parent,
        "score": candidate.final,
        "operations": [operation.model_dump() for operation in step.operations],
        "reasoning": step.reasoning,
        "results": {name: result.model_dump() for name, result in candidate.results.items()},
        "usage": _usage_json(step.usage),
        "yaml": step.yaml,
    }


def _usage_json(usage: Usage) -> dict[str, Any]:
    return {"calls": usage.calls, "tokens": usage.tokens, "cost": usage.known_cost, "unpriced": usage.unpriced}


def _summary_text(found: Optimised) -> str:
    best, baseline = found.best, found.baseline
    verdict = (
        f"candidate {best.number} is better: {best.final:.3f}, and the expert as it is {baseline.final:.3f}"
        if found.improved
        else f"nothing better than the expert as it is was found: {baseline.final:.3f}"
    )
    if len(best.results) < found.tasks:
        verdict += f" (on {len(best.results)} of {found.tasks} tasks)"
    return "\n".join(
        [
            printable(verdict),
            f"{found.stopped}; {used(found.state.usage)}",
            printable(f"kept in {found.folder}; operad run {found.folder / BEST} runs the best"),
        ]
    )


def _chosen_reasoners(
    configuration: Configuration,
    name: str | None,
    acting: tuple[str | None, str | None],
    asking: tuple[str | None, str | None],
) -> dict[str, Reasoner | None]:
    """Return the reasoners of the workflow and of the proposals; None for a proposer that `aoptimise` chooses."""

    def reasoner_for(options: tuple[str | None, str | None]) -> Reasoner:
        return configuration.expert(name, model_name=options[0], base_url=options[1]).reasoner

    if not any(asking):
        return {"reasoner": reasoner_for(acting), "proposer": None}
    model, url = asking[0] or acting[0], asking[1] or acting[1]
    return {"reasoner": reasoner_for(acting), "proposer": proposing(reasoner_for((model, url)))}
