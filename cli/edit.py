"""`operad edit`: operations on a workflow of any format with typed nodes."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated

import typer

from operad.cli.formats import EXIT_LEFT, STDOUT, write_file
from operad.configs.flow import is_configuration, read_file, read_workflow
from operad.configs.issues import issue_line, placed
from operad.flows.edit import Difference, Operation, apply, new_issues, parse, read_operations, schema
from operad.flows.formats.format import Format
from operad.flows.formats.json_text import read_json, read_text
from operad.flows.formats.table import FORMATS
from operad.flows.node_graph import NodeGraph
from operad.runtime.values.errors import InputError, InvalidError, Issue, did_you_mean
from operad.runtime.values.text import harmless, printable


def edit(
    file: Annotated[
        str | None, typer.Argument(metavar="FILE", help="A workflow of typed nodes, in any format.")
    ] = None,
    op: Annotated[
        list[str] | None,
        typer.Option("--op", help="An operation, as words or as JSON. Repeatable; applied in order."),
    ] = None,
    ops: Annotated[
        list[str] | None, typer.Option("--ops", metavar="FILE.json", help="A file of operations, applied before --op.")
    ] = None,
    output: Annotated[
        str | None,
        typer.Option("-o", "--output", metavar="FILE", help="Output file; - is stdout. By default FILE."),
    ] = None,
    format_: Annotated[
        str | None, typer.Option("--format", help="Format of FILE, if its content is ambiguous.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Write nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print changes and new issues as JSON.")] = False,
    as_schema: Annotated[bool, typer.Option("--schema", help="Print the JSON Schema of operations, and end.")] = False,
) -> None:
    """Apply edit operations to a workflow: all of them, or none.

    FILE is replaced as a whole, or the output is written.
    An operation is its name and its fields: `connect 3 4 port=1`, `set 3 system "Be brief."`. Changes are
    printed, one per line; new issues go to stderr. Exit status: 0; 1 if there are new issues
    except notes, although the workflow is written; 2 if an operation was refused, and the workflow is not written.
    """
    if as_schema:
        print(json.dumps(schema(), indent=2))
        return
    if file is None:
        raise InputError("operad edit needs a FILE; see operad edit --help")
    operations = _operations(ops or (), op or ())
    if not operations:
        raise InputError("there is nothing to do; give an --op, such as --op 'connect 3 4 port=1', or --ops FILE.json")
    found, graph = _read(file, format_)
    edited = apply(graph, operations)
    before, after = (
        [*found.check(graph), *found.losses(graph)],
        [*found.check(edited.graph), *found.losses(edited.graph)],
    )
    data = found.dump_keeping_text(edited.graph, read_file(file))
    new = [*new_issues(before, after), *_not_written(found, graph, edited.graph, data)]
    target = output or file
    if not dry_run:
        write_file(target, data)
    stream = sys.stderr if target == STDOUT and not dry_run else sys.stdout
    if as_json:
        changes = json.dumps(_as_json(edited.changes, new), indent=2, ensure_ascii=False)
        print(harmless(changes) if stream.isatty() else changes, file=stream)
    else:
        for line in str(edited.changes).splitlines():
            print(printable(line), file=stream)
        for issue in new:
            print(issue_line(placed(issue, file), file), file=sys.stderr)
    raise typer.Exit(EXIT_LEFT if any(issue.code != "note" for issue in new) else 0)


def _not_written(found: Format, graph: NodeGraph, edited: NodeGraph, data: bytes) -> list[Issue]:
    """Return an issue for each changed node whose change the file does not have, as its format has no place for it."""
    written = found.load(data, edited.name).by_id
    return [
        Issue("loss", f"the format {found.name} cannot hold this change, so the node is written unchanged", node_id)
        for node_id, spec in edited.by_id.items()
        if node_id in graph.by_id and node_id in written
        if spec.params != graph.by_id[node_id].params == written[node_id].params
    ]


def _operations(files: Sequence[str], texts: Sequence[str]) -> list[Operation]:
    """Return the operations of files and of options, in order.

    Raises:
        InputError: One file or option cannot be read.
        InvalidError: Operations are not valid; every issue of every file and option is listed.
    """
    operations, errors = list[Operation](), dict[str, InputError | InvalidError]()
    readers = [(path, partial(_read_operations, path)) for path in files]
    readers += [(f"--op {number}", partial(parse, text)) for number, text in enumerate(texts, 1)]
    for place, read in readers:
        try:
            operations += read()
        except (InputError, InvalidError) as error:
            errors[place] = error
    if len(errors) == 1:
        raise next(iter(errors.values()))
    if errors:
        issues = [issue for place, error in errors.items() for issue in _issues_at(place, error)]
        raise InvalidError("operations cannot be read", issues)
    return operations


def _read_operations(path: str) -> list[Operation]:
    return read_operations(read_json(read_text(read_file(path), path), path))


def _issues_at(place: str, error: InputError | InvalidError) -> Sequence[Issue]:
    """Return the issues of an error, with the file or option that they are in."""
    if isinstance(error, InputError):
        return [Issue("input", str(error).removeprefix(f"{place}: "), place)]
    return [replace(issue, where=f"{place}: {issue.where}" if issue.where else place) for issue in error.issues]


def _read(file: str, format_: str | None) -> tuple[Format, NodeGraph]:
    """Return the format and the workflow of a file.

    Raises:
        InputError: The format is unknown, or its nodes are not of operad's types.
        InvalidError: The file cannot be read; every issue is listed.
    """
    data = read_file(file)
    known: Mapping[str, Format] = FORMATS
    editable = {name: candidate for name, candidate in known.items() if candidate.runs}
    if format_ is not None and format_ not in known:
        raise InputError(
            f"--format {format_}: there is no such format{did_you_mean(format_, editable)}; there are: {', '.join(editable)}"
        )
    if format_ is None and is_configuration(data):
        raise InputError(
            f"{file}: configures experts; operad edit changes workflows of typed nodes: {', '.join(editable)}"
        )
    found, graph = read_workflow(file, data, known, format_=known[format_] if format_ else None)
    if not found.runs:
        fault = f"is of the format {found.name}, whose nodes are not of operad's types"
        raise InputError(f"{file}: {fault}; operad edit changes: {', '.join(editable)}")
    return found, graph


def _as_json(changes: Difference, issues: Sequence[Issue]) -> Mapping[str, object]:
    issues_json = [{"code": issue.code, "where": issue.where, "message": issue.message} for issue in issues]
    return {"changes": changes.as_dict(), "issues": issues_json}
