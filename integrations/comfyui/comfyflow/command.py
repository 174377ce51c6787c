"""`operad evaluate comfy`: ComfyUI workflows that models wrote, scored like ComfyFlow does."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from pydantic import TypeAdapter, ValidationError

from operad.cli.evaluate.work import Result, ResultsFile, Work, evaluate
from operad.cli.formats import ObjectInfo
from operad.cli.tables import Plot, Report, check_plot, show
from operad.integrations.comfyui.comfyflow.files import Gold, Item, files_of, golds_of, read_items
from operad.integrations.comfyui.comfyflow.judging import judge
from operad.integrations.comfyui.comfyflow.rates import Rates, by_difficulty, rates
from operad.integrations.comfyui.comfyflow.score import DIFFICULTIES, SECONDS, ComfyScore, as_json, score_judged
from operad.integrations.comfyui.definitions import definitions_from
from operad.integrations.comfyui.formats import Definitions
from operad.runtime.evaluation.tables import Cell, Table
from operad.runtime.values.errors import InputError

ALL, UNREAD = "all", "unread"

_MAX_AT_FAULT = 40
"""Maximum number of workflows in the table of those at fault."""

_RATES: Mapping[str, str] = {
    "format": "format",
    "node_f1": "node F1",
    "graph_f1": "graph F1",
    "passes": "pass",
    "passes_but_outputs": "pass*",
    "connected": "one part",
    "terminal": "terminal",
    "terminal_but_outputs": "terminal*",
    "undefined": "undefined",
    "illegal": "illegal",
    "missing": "missing",
    "sound": "sound",
}
"""Columns of the table by the names of the rates."""

_SCORES = TypeAdapter(ComfyScore)


def comfy(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE|DIR",
            help="Workflows as JSON or code, answers of models, folders of these, or JSON lines "
            "{id, answer|response|code|workflow, gold?}.",
        ),
    ],
    object_info: ObjectInfo,
    gold: Annotated[
        Path | None,
        typer.Option(metavar="FILE|DIR", help="The golds: a folder or JSON lines, by name or id; or one for all."),
    ] = None,
    out: ResultsFile = None,
    as_json_: Annotated[bool, typer.Option("--json", help="Print the rates and the results as JSON.")] = False,
    plot: Annotated[
        Path | None, typer.Option("--plot", "--picture", metavar="FILE", help="Draw the rates: .png or .svg.")
    ] = None,
) -> None:
    """Score ComfyUI workflows with the metrics of ComfyFlow: format, F1 against a gold, hallucinations. None is run.

    An unreadable workflow counts as an error in every metric. Without a gold there is no F1.
    """
    check_plot(plot)
    if not object_info:
        raise InputError(
            "--object-info: name a file with what a ComfyUI server answers at /object_info, or its address"
        )
    definitions = definitions_from(object_info) if object_info else Definitions()
    items = read_items(file for path in files for file in files_of(path, out))
    golds = golds_of(items, gold, out, definitions)
    work = [_work_item(item, golds.get(item.key), definitions) for item in items]
    settings = {"scores": "comfyflow", "classes": _fingerprint(definitions)}
    results = evaluate(work, settings, out)
    show(_report(results, out), as_json=as_json_, plot=plot)


def _work_item(item: Item, gold: Gold | None, definitions: Definitions) -> Work:
    async def score() -> Result:
        return as_json(score_judged(judge(item.content, definitions), gold.graph if gold else None, SECONDS))

    return Work(item.key, item.content + (b"\0gold\0" + gold.content if gold else b""), score)


def _fingerprint(definitions: Definitions) -> str:
    return sha256(repr(definitions.classes).encode("utf-8", "replace")).hexdigest()[:16]


# Report


def _report(results: Sequence[Mapping[str, Any]], out: Path | None) -> Report:
    try:
        scores = [_SCORES.validate_python(dict(each)) for each in results]
    except ValidationError as error:
        raise InputError(f"--output {out}: holds results of another version; name another file") from error
    unread = [each for each in scores if each.difficulty is None]
    rows: dict[str, Rates] = {ALL: rates(scores), **by_difficulty(scores)}
    if unread:
        rows[UNREAD] = rates(unread)
    unproven = sum(not each.optimal for each in scores)
    if unproven:
        print(f"operad: the F1 of {unproven} workflows may be higher: the search ended early", file=sys.stderr)
    summary = {**{name: asdict(each) for name, each in rows.items()}, "unproven": unproven}
    tables = [_rates_table(rows)]
    if at_fault := [(each["key"], score) for each, score in zip(results, scores, strict=True) if _is_at_fault(score)]:
        tables.append(_fault_table(at_fault))
    return Report(summary, results, tables, [_plot(rows)])


def _rates_table(rows: Mapping[str, Rates]) -> Table:
    """Return the rates as in tables 2 and 5 of the paper."""
    cells: list[list[Cell]] = [
        [name, rates.count, *(cast("float | None", getattr(rates, rate)) for rate in _RATES)]
        for name, rates in rows.items()
    ]
    title = (
        "ComfyFlow (%); * where nodes that are outputs themselves may declare outputs; terminal to missing are errors"
    )
    return Table(title, ["", "workflows", *_RATES.values()], cells)


def _is_at_fault(score: ComfyScore) -> bool:
    return not (score.passes and score.sound)


def _fault_table(at_fault: Sequence[tuple[str, ComfyScore]]) -> Table:
    shown = at_fault[:_MAX_AT_FAULT]
    rows = [[key.rpartition("/")[2], _codes(score), _first_issue(score)] for key, score in shown]
    more = f", the first {len(shown)}" if len(shown) < len(at_fault) else ""
    return Table(f"{len(at_fault)} at fault{more}", ["workflow", "faults", "the gravest"], rows)


def _codes(score: ComfyScore) -> str:
    return ", ".join(dict.fromkeys(issue.code for issue in score.issues if issue.code not in ("missing-file", "more")))


def _first_issue(score: ComfyScore) -> str:
    return next((f"{issue.where}: {issue.message}" if issue.where else issue.message for issue in score.issues), "")


def _plot(rows: Mapping[str, Rates]) -> Plot:
    places = [*DIFFICULTIES, ALL]
    drawn = ["format", "passes", "passes_but_outputs", "sound"]
    drawn += [rate for rate in ("node_f1", "graph_f1") if getattr(rows[ALL], rate) is not None]
    series = {_RATES[rate]: [cast("float | None", getattr(rows[place], rate)) for place in places] for rate in drawn}
    return Plot("ComfyFlow by difficulty", "difficulty", places, series)
