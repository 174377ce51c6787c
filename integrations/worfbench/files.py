"""Workflows for WorFEval from files, and which prediction belongs to which gold workflow.

A file is JSON in WorFBench's form, a list of items; or JSON lines, an item a line; or a text, one item. An item says
its workflow in the last message of its ``conversations``, or as ``prediction``, ``response`` or ``output``. A folder
stands for its .json and .jsonl files; where it has none, for all its files as texts, each with its name as id.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from operad.cli.evaluate.work import MAX_BYTES, first_issues
from operad.flows.formats.json_text import json_lines
from operad.runtime.values.errors import InputError, Issue, did_you_mean
from operad.runtime.values.file import read_bytes

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
