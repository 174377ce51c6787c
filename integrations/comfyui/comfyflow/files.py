"""Files of `operad evaluate comfy`: workflows, answers and golds."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from operad.cli.evaluate import work
from operad.cli.evaluate.work import first_issues
from operad.flows.formats.json_text import MAX_BYTES, json_lines
from operad.flows.formats.shapes import fields_of
from operad.flows.node_graph import NodeGraph
from operad.integrations.comfyui.comfyflow.judging import graph_of_gold
from operad.integrations.comfyui.formats import Definitions
from operad.runtime.values.errors import InputError, InvalidError, Issue, did_you_mean, shorten
from operad.runtime.values.file import FileDescriptor, read_bytes

LINES = ".jsonl"
SUFFIXES = (".comfyui.api.json", ".comfyui.json", ".comfyui.py", ".json", ".py", ".txt", ".md", LINES)
"""Suffixes of the files in a folder that are read; the name without its suffix is the id."""

ANSWERS = ("answer", "response", "code", "workflow")
"""Keys of the workflow in a line of a file to be scored."""

GOLDS = ("gold", *ANSWERS)
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


def files_of(path: Path, out: Path | None) -> Sequence[Path]:
    """Return the file itself; of a folder, the files with known suffixes, without the file of results.

    Raises:
        InputError: The file does not exist, or the folder has no such files.
    """
    if not path.is_dir():
        FileDescriptor.of(path)
        return [path]
    kept = out.resolve() if out else None
    try:
        found = sorted(file for file in path.iterdir() if file.is_file() and file.name.endswith(SUFFIXES))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    listed = [file for file in found if file.resolve() != kept]
    if not listed:
        raise InputError(f"{path}: has no files that end with one of {', '.join(SUFFIXES)}")
    return listed


def read_items(files: Iterable[Path], keys: Sequence[str] = ANSWERS) -> list[Item]:
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
    if file.suffix != LINES:
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
    return next((file.name.removesuffix(suffix) for suffix in SUFFIXES if file.name.endswith(suffix)), file.name)


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


def golds_of(
    items: Sequence[Item], gold: Path | None, out: Path | None, definitions: Definitions
) -> Mapping[str, Gold]:
    """Return the golds by the keys of the items; empty if there are none.

    Raises:
        InputError: Only some of the items have a gold.
        InvalidError: A gold cannot be read.
    """
    found: Mapping[str, bytes] = {} if gold is None else _named_golds(gold, out)
    only_gold = found.get("") if gold is not None and not gold.is_dir() and gold.suffix != LINES else None
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
    listed = read_items(files_of(gold, out), GOLDS)
    if not gold.is_dir() and gold.suffix != LINES:
        return {"": listed[0].content}
    named = {item.id: item.content for item in listed}
    if len(named) < len(listed):
        raise InputError(f"--gold {gold}: two gold workflows have the same name")
    return named
