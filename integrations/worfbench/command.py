"""`operad evaluate worf`: predicted workflows against gold ones, as WorFBench scores them."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, cast

import typer

from operad.cli.evaluate.work import MAX_BYTES, Result, ResultsFile, Work, evaluate, first_issues
from operad.cli.tables import Plot, Report, check_plot, show
from operad.flows.formats.json_text import json_lines
from operad.runtime.evaluation.tables import Cell, Table
from operad.runtime.values.errors import InputError, InvalidError, Issue, OperadError, did_you_mean, shorten
from operad.runtime.values.file import read_bytes

if TYPE_CHECKING:
    from operad.integrations.worfbench.plan import Plan
    from operad.integrations.worfbench.similarity import Similarity
    from operad.integrations.worfbench.worfeval import Mode


# Workflows for WorFEval from files, and which prediction belongs to which gold workflow.
#
# A file is JSON in WorFBench's form, a list of items; or JSON lines, an item a line; or a text, one item. An item says
# its workflow in the last message of its ``conversations``, or as ``prediction``, ``response`` or ``output``. A folder
# stands for its .json and .jsonl files; where it has none, for all its files as texts, each with its name as id.

_LISTS = (".json", ".jsonl")
_ANSWERS = ("prediction", "response", "output")
_TEXT_SUFFIXES = (".worfbench.txt",)


class Item(NamedTuple):
    """A workflow as found in a file.

    Attributes:
        data_set: Name of the item's file, or of its folder of texts.
        id: Id in the data set; empty for none.
        place: Position in the data set, from 1.
        text: The text with the workflow.
    """

    data_set: str
    id: str
    place: int
    text: bytes

    @property
    def key(self) -> str:
        """Name that is unique among all items."""
        return f"{self.data_set}/{self.id or self.place}"


class Pair(NamedTuple):
    """A gold workflow and its prediction; None if there is no prediction."""

    gold: Item
    predicted: Item | None


def read_items(paths: Iterable[Path]) -> list[Item]:
    """Return all items of files and folders.

    Raises:
        InputError: A file cannot be read.
        InvalidError: Items contain no workflow; the first 20 are listed.
    """
    issues: list[Issue] = []
    items = [item for path in paths for item in _items_of(path, issues)]
    if issues:
        raise first_issues("items", issues)
    return items


def pair(gold: Sequence[Item], predicted: Sequence[Item]) -> list[Pair]:
    """Return each gold workflow with its prediction.

    A prediction with an id belongs to the gold item with that id, in the data set of the same name or else in any. A
    prediction without an id belongs to the gold item at its position, in the data set of the same name or the only one.

    Raises:
        InvalidError: Two gold items of a data set have the same id, a prediction has no gold item, or a gold item has
            two predictions; the first 20 are listed.
    """
    issues = [
        Issue("twice", "another gold item of the data set has this id", key)
        for key, count in Counter(item.key for item in gold).items()
        if count > 1
    ]
    by_place = {(item.data_set, item.place): item for item in gold}
    by_set_and_id = {(item.data_set, item.id): item for item in gold if item.id}
    by_id: dict[str, list[Item]] = {}
    for item in gold:
        by_id.setdefault(item.id, []).append(item)
    sets = {item.data_set for item in gold}
    only_set = next(iter(sets)) if len(sets) == 1 and len({item.data_set for item in predicted}) == 1 else ""
    found: dict[str, Item] = {}
    for item in predicted:
        gold_item: Item | None
        if item.id:
            same_id = by_id.get(item.id, [])
            gold_item = by_set_and_id.get((item.data_set, item.id)) or (same_id[0] if len(same_id) == 1 else None)
            reason = f"no gold item has the id {item.id!r}{did_you_mean(item.id, [id_ for id_ in by_id if id_])}"
            if same_id:
                reason = f"gold items of several data sets have the id {item.id!r}: name the file as one of these"
        else:
            gold_item = by_place.get((only_set or item.data_set, item.place))
            reason = (
                "it has no id, and no gold item is in its place: give it an id, or its file the name of the gold one"
            )
        if gold_item is None:
            issues.append(Issue("no-gold", reason, item.key))
        elif gold_item.key in found:
            issues.append(
                Issue("twice", f"{found[gold_item.key].key} is a prediction for {gold_item.key}, too", item.key)
            )
        else:
            found[gold_item.key] = item
    if issues:
        raise first_issues("predictions", issues)
    return [Pair(item, found.get(item.key)) for item in gold]


def _items_of(path: Path, issues: list[Issue]) -> Iterator[Item]:
    try:
        if not path.is_dir():
            yield from _items_in(path, issues)
            return
        files = sorted(file for file in path.iterdir() if file.is_file() and not file.name.startswith("."))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    lists = [file for file in files if file.suffix.lower() in _LISTS]
    for file in lists:
        yield from _items_in(file, issues)
    if not lists:
        name = path.resolve().name
        yield from (
            Item(name, _stem(file), place, read_bytes(file, MAX_BYTES)) for place, file in enumerate(files, start=1)
        )


def _items_in(file: Path, issues: list[Issue]) -> Iterator[Item]:
    data = read_bytes(file, MAX_BYTES)
    if file.suffix.lower() not in _LISTS:
        yield Item(_stem(file), _stem(file), 1, data)
        return
    for place, (where, value) in enumerate(_placed_values(file, data, issues), start=1):
        try:
            name, text = _id_and_text(value)
        except ValueError as error:
            issues.append(Issue("item", str(error), where))
        else:
            yield Item(file.stem, name, place, text.encode("utf-8", "replace"))


def _placed_values(file: Path, data: bytes, issues: list[Issue]) -> Iterator[tuple[str, Any]]:
    """Yield the items of a file as JSON values, each with its place."""
    if file.suffix.lower() == ".jsonl":
        for number, value in json_lines(data, str(file), issues):
            yield f"{file}:{number}", value
        return
    try:
        values = json.loads(data)
    except (ValueError, RecursionError) as error:
        issues.append(Issue("format", f"is not JSON: {error}", str(file)))
        return
    if not isinstance(values, list):
        values = [values]
    for number, value in enumerate(cast("list[Any]", values), start=1):
        yield f"{file}, item {number}", value


def _id_and_text(value: Any) -> tuple[str, str]:
    """Return the id and the text with the workflow of an item.

    Raises:
        ValueError: The item contains no workflow.
    """
    if not isinstance(value, dict):
        raise ValueError("is not an object; an item has conversations, or a prediction")
    item = cast("Mapping[str, Any]", value)
    name = item.get("id")
    if isinstance(name, bool) or not isinstance(name, str | int | None):
        raise ValueError("id must be a text or a whole number")
    text: Any = None
    if "conversations" in item:
        messages: Any = item["conversations"]
        last: Any = cast("list[Any]", messages)[-1] if isinstance(messages, list) and messages else None
        text = cast("Mapping[str, Any]", last).get("content") if isinstance(last, dict) else None
        if not isinstance(text, str):
            raise ValueError("conversations must end with a message whose content is a text")
        return "" if name is None else str(name), text
    known = [key for key in _ANSWERS if key in item]
    if not known:
        raise ValueError(f"has neither conversations nor one of {', '.join(_ANSWERS)}")
    text = item[known[0]]
    if not isinstance(text, str | None):
        raise ValueError(f"{known[0]} must be a text, or null for none")
    return "" if name is None else str(name), text or ""


def _stem(file: Path) -> str:
    for suffix in _TEXT_SUFFIXES:
        if file.name.lower().endswith(suffix):
            return file.name[: -len(suffix)]
    return file.stem


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
