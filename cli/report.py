"""`operad report`: report of a run from its events file, as a page or as Markdown."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from operad.cli.formats import STDOUT, write_file
from operad.runtime.events.events_file import EventsFile
from operad.runtime.observe.trace import Trace
from operad.runtime.values.errors import InputError
from operad.server.view.markdown import markdown
from operad.server.view.page import report as page_of

_KINDS = {".html": page_of, ".htm": page_of, ".md": markdown}


def report(
    events: Annotated[Path, typer.Argument(metavar="RUN.jsonl", help="A file written by operad run --events.")],
    output: Annotated[
        str,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="Output file, .html or .md; - (the default) is Markdown on stdout.",
        ),
    ] = STDOUT,
) -> None:
    """Write a report of a run: a self-contained page (.html), or a summary in Markdown (.md).

    An existing file is replaced atomically. Exit status: 0, or 2 if the file of events cannot
    be read.
    """
    suffix = ".md" if output == STDOUT else Path(output).suffix.lower()
    if suffix not in _KINDS:
        raise InputError(f"-o {output}: the name of a report ends with .html or .md; - is Markdown on stdout")
    text = _KINDS[suffix](_trace(events))
    write_file(output, text.encode("utf-8", "replace"))


def _trace(path: Path) -> Trace:
    """Return the trace of a run from a file of events; print warnings about the file to stderr."""
    file = EventsFile(path)
    trace = Trace.of(file.events())
    if trace.root is None:
        raise InputError(f"{path}: contains no run; give a file that operad run --events FILE.jsonl has written")
    if file.unknown:
        events = "1 event" if file.unknown == 1 else f"{file.unknown} events"
        print(f"operad: {path}: {events} of a type that is not known here, left out", file=sys.stderr)
    if not trace.ended:
        print(f"operad: {path}: the file ends before the run does", file=sys.stderr)
    return trace
