"""`operad evaluate worf`: predicted workflows against gold ones, as WorFBench scores them."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from operad.cli.evaluate.work import Result, ResultsFile, Work, evaluate, first_issues
from operad.cli.tables import Plot, Report, check_plot, show
from operad.integrations.worfbench.files import Pair, pair, read_items
from operad.runtime.evaluation.tables import Cell, Table
from operad.runtime.values.errors import InputError, InvalidError, Issue, OperadError, shorten

if TYPE_CHECKING:
    from operad.integrations.worfbench.plan import Plan
    from operad.integrations.worfbench.similarity import Similarity
    from operad.integrations.worfbench.worfeval import Mode


_FIGURES = tuple((score, figure) for score in ("node", "graph") for figure in ("precision", "recall", "f1"))
_COLUMNS = ("data set", "items", *(f"{a} {b[0].upper() if b != 'f1' else 'F1'}" for a, b in _FIGURES), "proven")


def worf(
    predicted: Annotated[
        list[Path], typer.Argument(metavar="PRED", help="Predictions: WorFBench's JSON, JSON lines, texts; folders.")
    ],
    gold: Annotated[Path, typer.Option(metavar="FILE|DIR", help="The gold workflows, in one of these forms.")],
    similarity: Annotated[
        str, typer.Option(help="Similarity of tasks: embeddings, for sentences; or exact, for types of nodes.")
    ] = "embeddings",
    mode: Annotated[str, typer.Option(help="paper, full, or official: the metric of the authors' program.")] = "paper",
    threshold: Annotated[float, typer.Option(help="Least similarity of matching tasks, above 0 and up to 1.")] = 0.6,
    seconds: Annotated[float, typer.Option(help="Time limit of each search for an item, in seconds.")] = 10.0,
    out: ResultsFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures and all items as JSON.")] = False,
    plot: Annotated[
        Path | None, typer.Option("--plot", "--picture", metavar="FILE.png|svg", help="Draw the F1 of each data set.")
    ] = None,
) -> None:
    """Score predicted workflows against gold ones with WorFEval.

    A prediction belongs to the gold workflow with its id; without ids, to the one in the same place of the file of the
    same name, or of the only file. A gold workflow without a prediction scores 0. Exit status: 0, or 2 on bad input.
    """
    from operad.integrations.worfbench.similarity import named_similarity
    from operad.integrations.worfbench.worfeval import (
        check_settings,  # not at import: other commands do not need networkx
    )

    check_settings(threshold, mode)
    if not 0 < seconds < inf:
        raise InputError(f"--seconds {seconds:g}: must be more than 0, and finite")
    alike = named_similarity(similarity)
    check_plot(plot)
    pairs = _pairs(predicted, gold)
    plans = _gold_plans(pairs)
    work = [
        _work_item(item, plan, alike, threshold, cast("Mode", mode), seconds)
        for item, plan in zip(pairs, plans, strict=True)
    ]
    settings = {
        "metric": "worfeval", "similarity": similarity, "mode": mode, "threshold": threshold, "seconds": seconds
    }  # fmt: skip
    results = evaluate(work, settings, out)
    show(_report(settings, results), as_json=as_json, plot=plot)


def _pairs(predicted: Sequence[Path], gold: Path) -> list[Pair]:
    golds, answers = read_items([gold]), read_items(predicted)
    for items, where in ((golds, f"--gold {gold}"), (answers, ", ".join(map(str, predicted)))):
        if not items:
            raise InputError(f"{where}: has no items")
    pairs = pair(golds, answers)
    if missing := [item.gold.key for item in pairs if item.predicted is None]:
        print(
            f"operad: {len(missing)} of {len(pairs)} gold workflows have no prediction and score 0: {shorten(missing)}",
            file=sys.stderr,
        )
    return pairs


def _gold_plans(pairs: Sequence[Pair]) -> list[Plan]:
    from operad.integrations.worfbench.plan import gold_plan

    plans: list[Plan] = []
    issues: list[Issue] = []
    for item in pairs:
        try:
            plans.append(gold_plan(item.gold.text))
        except InvalidError as error:
            issues += [Issue(issue.code, issue.message, item.gold.key) for issue in error.issues]
        except OperadError as error:
            issues.append(Issue("gold", str(error), item.gold.key))
    if issues:
        raise first_issues("gold workflows", issues)
    return plans


def _work_item(item: Pair, gold: Plan, alike: Similarity, threshold: float, mode: Mode, seconds: float) -> Work:
    from operad.integrations.worfbench.plan import predicted_plan
    from operad.integrations.worfbench.worf_evaluator import figures
    from operad.integrations.worfbench.worfeval import score_plans

    text = item.predicted.text if item.predicted else b""

    async def score() -> Result:
        plan = predicted_plan(text)
        found = score_plans(plan, gold, alike, threshold, mode=mode, seconds=seconds)
        note = "no prediction" if item.predicted is None else "nothing could be read" if not plan.ids else ""
        return {"set": item.gold.data_set, **figures(found), "notes": [note] if note else []}

    return Work(item.gold.key, b"%d %b%b" % (len(text), text, item.gold.text), score)


def _report(settings: Mapping[str, Any], results: Sequence[Mapping[str, Any]]) -> Report:
    sets: dict[str, list[Mapping[str, Any]]] = {}
    for result in results:
        sets.setdefault(result["set"], []).append(result)
    means = {name: _means(items) for name, items in sets.items()}
    rows = [_row(name, means[name], items) for name, items in sets.items()]
    overall, of_sets = _means(results), _means(list(means.values()))
    if len(sets) > 1:
        rows += [
            _row("mean of items", overall, results),
            ["mean of data sets", None, *(of_sets[a][b] for a, b in _FIGURES), None],
        ]
    title = f"WorFEval, mode {settings['mode']}, {settings['similarity']} from {settings['threshold']:g}, in %"
    summary = {
        **settings,
        "items": len(results),
        "proven": sum(result["optimal"] for result in results),
        "sets": {name: {"items": len(items), **means[name]} for name, items in sets.items()},
        "mean of items": overall,
        "mean of data sets": of_sets,
    }
    series = {f"{score} F1": [means[name][score]["f1"] for name in sets] for score in ("node", "graph")}
    return Report(summary, results, [Table(title, _COLUMNS, rows)], [Plot(title, "data set", list(sets), series)])


def _means(items: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for score, figure in _FIGURES:
        found.setdefault(score, {})[figure] = sum(item[score][figure] for item in items) / len(items)
    return found


def _row(name: str, means: Mapping[str, Mapping[str, float]], items: Sequence[Mapping[str, Any]]) -> list[Cell]:
    return [name, len(items), *(means[a][b] for a, b in _FIGURES), sum(item["optimal"] for item in items)]
