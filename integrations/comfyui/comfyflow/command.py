"""`operad evaluate comfy`: ComfyUI workflows that models wrote, scored like ComfyFlow does."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, NamedTuple, cast

import typer
from pydantic import TypeAdapter, ValidationError

from operad.cli.evaluate import work
from operad.cli.evaluate.work import Result, ResultsFile, Work, evaluate, first_issues
from operad.cli.formats import ObjectInfo
from operad.cli.tables import Plot, Report, check_plot, show
from operad.flows.formats.json_text import MAX_BYTES, json_lines
from operad.flows.formats.shapes import fields_of
from operad.flows.node_graph import NodeGraph
from operad.integrations.comfyui.comfyflow.judging import graph_of_gold, judge
from operad.integrations.comfyui.comfyflow.score import (
    DIFFICULTIES,
    SECONDS,
    ComfyScore,
    Rates,
    as_json,
    by_difficulty,
    rates,
    score_judged,
)
from operad.integrations.comfyui.definitions import definitions_from
from operad.integrations.comfyui.formats import Definitions
from operad.runtime.evaluation.tables import Cell, Table
from operad.runtime.values.errors import InputError, InvalidError, Issue, did_you_mean, shorten
from operad.runtime.values.file import FileDescriptor, read_bytes

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
    items = read_items(file for path in files for file in _files_of(path, out))
    golds = _golds_of(items, gold, out, definitions)
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
    if at_fault := [
        (each["key"], score) for each, score in zip(results, scores, strict=True) if not (score.passes and score.sound)
    ]:
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


_LINES = ".jsonl"
_SUFFIXES = (".comfyui.api.json", ".comfyui.json", ".comfyui.py", ".json", ".py", ".txt", ".md", _LINES)
"""Suffixes of the files in a folder that are read; the name without its suffix is the id."""

_ANSWERS = ("answer", "response", "code", "workflow")
"""Keys of the workflow in a line of a file to be scored."""

_GOLDS = ("gold", *_ANSWERS)
"""Keys of the workflow in a line of a file of golds."""


class Item(NamedTuple):
    """A workflow to be scored.

    Attributes:
        key: Path of its file, with its id in a file of lines.
        id: Id by which its gold is found.
        content: Text to be scored.
        gold: Text of its gold, if its line contains one.
    """

    key: str
    id: str
    content: bytes
    gold: bytes | None = None


class Gold(NamedTuple):
    """Gold workflow, as text and as a graph."""

    content: bytes
    graph: NodeGraph


def _files_of(path: Path, out: Path | None) -> Sequence[Path]:
    """Return the file itself; of a folder, the files with known suffixes, without the file of results.

    Raises:
        InputError: The file does not exist, or the folder has no such files.
    """
    if not path.is_dir():
        FileDescriptor.of(path)
        return [path]
    kept = out.resolve() if out else None
    try:
        found = sorted(file for file in path.iterdir() if file.is_file() and file.name.endswith(_SUFFIXES))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    listed = [file for file in found if file.resolve() != kept]
    if not listed:
        raise InputError(f"{path}: has no files that end with one of {', '.join(_SUFFIXES)}")
    return listed


def read_items(files: Iterable[Path], keys: Sequence[str] = _ANSWERS) -> list[Item]:
    """Return the workflows of files: one, or one per line. Text beyond the size limit is cut off, and then unreadable.

    Args:
        files: The files.
        keys: Possible keys of the workflow in a line.

    Raises:
        InputError: A file cannot be read.
        InvalidError: Lines are malformed; the first 20 are listed.
    """
    issues: list[Issue] = []
    items = [item for file in files for item in _items_in(file, keys, issues)]
    if issues:
        raise first_issues("lines", issues)
    return items


def _items_in(file: Path, keys: Sequence[str], issues: list[Issue]) -> Iterator[Item]:
    if file.suffix != _LINES:
        try:
            with file.open("rb") as stream:
                yield Item(str(file), _id_of(file), stream.read(MAX_BYTES + 1))
        except OSError as error:
            raise InputError(f"{file}: cannot be read: {error.strerror or error}") from error
        return
    content = read_bytes(file, work.MAX_BYTES)
    if not content.strip():
        issues.append(Issue("empty", "has no lines", str(file)))
    for number, value in json_lines(content, str(file), issues):
        try:
            yield _item_of(fields_of(value), file, number, keys)
        except ValueError as error:
            issues.append(Issue("format", str(error), f"{file}:{number}"))


def _id_of(file: Path) -> str:
    return next((file.name.removesuffix(suffix) for suffix in _SUFFIXES if file.name.endswith(suffix)), file.name)


def _item_of(data: Mapping[str, Any], file: Path, number: int, keys: Sequence[str]) -> Item:
    """Return the workflow in a line.

    Raises:
        ValueError: The line has another form.
    """
    key = next((name for name in keys if name in data), None)
    id_ = data.get("id", number)
    if key is None or not isinstance(id_, str | int):
        hint = next(
            filter(None, (did_you_mean(name, keys) for name in list(data)[:20] if name not in ("id", "gold"))), ""
        )
        raise ValueError(f"must be an object with an id and one of {', '.join(keys)}{hint}")
    gold = None if data.get("gold") is None else _content_of(data["gold"], "gold")
    return Item(f"{file}:{id_}", str(id_), _content_of(data[key], key), gold)


def _content_of(value: Any, key: str) -> bytes:
    match value:
        case None:
            return b""
        case str():
            return value.encode("utf-8", "surrogatepass")
        case dict():
            return json.dumps(value).encode()
        case _:
            raise ValueError(f"{key}: must be a text, an object, or null for no answer")


def _golds_of(
    items: Sequence[Item], gold: Path | None, out: Path | None, definitions: Definitions
) -> Mapping[str, Gold]:
    """Return the golds by the keys of the items; empty if there are none.

    Raises:
        InputError: Only some of the items have a gold.
        InvalidError: A gold cannot be read.
    """
    found: Mapping[str, bytes] = {} if gold is None else _named_golds(gold, out)
    only_gold = found.get("") if gold is not None and not gold.is_dir() and gold.suffix != _LINES else None
    contents = {item.key: item.gold or found.get(item.id) or only_gold for item in items}
    lacking = [item for item in items if contents[item.key] is None]
    if lacking and (len(lacking) < len(items) or gold is not None):
        hint = did_you_mean(lacking[0].id, found)
        remedy = "add `gold` to these lines, or remove it from the others"
        if gold is not None:
            remedy = "give a gold workflow the same file name as its answer, or in JSON lines the same id"
        raise InputError(f"no gold workflow for {shorten([each.key for each in lacking])}{hint}; {remedy}")
    unused = found.keys() - {item.id for item in items}
    if unused and only_gold is None:
        print(f"operad: golds without an answer, which do not count: {shorten(sorted(unused))}", file=sys.stderr)
    read: dict[bytes, Gold] = {}
    issues: list[Issue] = []
    for item in items:
        content = contents[item.key]
        if content is not None and content not in read:
            try:
                read[content] = Gold(content, graph_of_gold(content, definitions))
            except InvalidError as error:
                found_in = f"the gold of {item.key}"
                issues += [replace(issue, where=f"{found_in}, {issue.where}".rstrip(", ")) for issue in error.issues]
    if issues:
        raise first_issues("gold workflows", issues)
    return {key: read[content] for key, content in contents.items() if content is not None}


def _named_golds(gold: Path, out: Path | None) -> Mapping[str, bytes]:
    """Return the texts of golds by id; a single gold of a file has an empty id."""
    listed = read_items(_files_of(gold, out), _GOLDS)
    if not gold.is_dir() and gold.suffix != _LINES:
        return {"": listed[0].content}
    named = {item.id: item.content for item in listed}
    if len(named) < len(listed):
        raise InputError(f"--gold {gold}: two gold workflows have the same name")
    return named
