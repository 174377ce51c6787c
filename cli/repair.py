"""`operad repair`: rule-based repair of a workflow that a model wrote."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated

import typer

from operad.cli.formats import EXIT_FAULTS, EXIT_LEFT, STDOUT, target_format, write_file
from operad.configs.flow import called, is_configuration, read_file
from operad.flows.formats.chat2workflow import CHAT2WORKFLOW
from operad.flows.formats.format import Format
from operad.flows.formats.table import FORMATS, find_format, read
from operad.flows.repair import Repaired, repair, repair_graph
from operad.runtime.values.errors import InputError, InvalidError
from operad.runtime.values.text import printable


def repair_command(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A model's response, or a workflow of typed nodes in any format.")
    ],
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="FILE", help="Output file; - (the default) is stdout.")
    ] = STDOUT,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the repairs, the lessons, the issues left and the text as JSON.")
    ] = False,
) -> None:
    """Repair a workflow that a model wrote: its JSON, form, references and edges.

    Repairs go to stderr, one per line, then the remaining issues; the workflow goes to the output in the format of the
    output's name, or to stdout in its own. Exit status: 0 if there are no issues, 1 if issues are left, 2 if no
    workflow can be read.
    """
    data = read_file(file)
    found, mended = _mended(data, file)
    written = _written(mended, found, output, data)
    if as_json:
        print(json.dumps(_as_json(mended, written), indent=2))
    else:
        for line in (*map(str, mended.repairs), *mended.lessons):
            print(printable(line), file=sys.stderr)
        if mended.graph is None:
            print(f"operad: {file}: no workflow can be read from it", file=sys.stderr)
    if mended.graph is not None and not (as_json and output == STDOUT):
        write_file(output, written)
    raise typer.Exit(EXIT_FAULTS if mended.graph is None else EXIT_LEFT if mended.issues else 0)


def _mended(data: bytes, source: str) -> tuple[Format, Repaired]:
    """Return the format and the repaired workflow of a file; content without a format counts as a model's response."""
    if is_configuration(data):
        raise InputError(f"{source}: configures experts; operad check lists its issues")
    found = find_format(data)
    if found is None or found is CHAT2WORKFLOW:
        return CHAT2WORKFLOW, repair(data)
    if not found.runs:
        raise InputError(
            f"{source}: is of the format {found.name}, whose nodes are not typed, so it cannot be repaired"
        )
    try:
        _, graph = read(data, called(source, FORMATS))
    except InvalidError as error:
        return found, Repaired("", issues=error.issues, lessons=[str(issue) for issue in error.issues])
    return found, repair_graph(graph, check=found.check)


def _written(mended: Repaired, found: Format, target: str, data: bytes) -> bytes:
    """Return the workflow in the target's format; unrepaired content in the same format stays unchanged."""
    if mended.graph is None:
        return b""
    wanted = found if target == STDOUT else target_format(target, None, found, FORMATS, option=False)
    if wanted is not found:
        return wanted.dump(mended.graph)
    if not mended.repairs:
        return data
    return mended.text.encode("utf-8", errors="replace") if found is CHAT2WORKFLOW else found.dump(mended.graph)


def _as_json(mended: Repaired, written: bytes) -> Mapping[str, object]:
    return {
        "repairs": [each._asdict() for each in mended.repairs],
        "lessons": list(mended.lessons),
        "issues": [asdict(each) for each in mended.issues],
        "text": mended.text or written.decode("utf-8", errors="replace"),
    }
