"""`operad check`, `operad convert`, `operad show`: workflows in any format, without running them."""

from __future__ import annotations

import errno
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, NamedTuple, get_args

import typer

from operad.cli.remarks import LOSSY, placed_remarks
from operad.configs.chart import experts_chart, experts_page
from operad.configs.flow import is_configuration, read_file, read_workflow
from operad.configs.issues import Placed, error_lines, in_file, issue_line, placed
from operad.configs.loader import found_file, preview
from operad.runtime.values.errors import InputError, InvalidError, Issue, did_you_mean
from operad.runtime.values.file import unwritable, write_whole
from operad.runtime.values.text import harmless, printable

if TYPE_CHECKING:  # formats are imported when used: checking a configuration needs none
    from operad.flows.formats.format import Format
    from operad.flows.node_graph import NodeGraph, PictureTarget

EXIT_LEFT = 1
"""Exit status if losses, repairs or new issues are left."""

EXIT_FAULTS = 2
"""Exit status if a file has issues or cannot be read."""

STDOUT = "-"
CONFIGURATION = "configuration"
EXPERT = "expert"

ObjectInfo = Annotated[
    str | None,
    typer.Option(
        "--object-info",
        metavar="FILE|URL",
        help="Node classes of a ComfyUI server: its answer at /object_info, or its address.",
    ),
]


class Report(NamedTuple):
    """Issues of a file.

    Attributes:
        file: The file, as given by the user.
        format: Name of its format; ``configuration`` if it configures experts; empty if it has none.
        issues: Its faults, and differences that may change its results.
        read: True if it could be read.
        notes: Differences from its platform that do not affect its results.
        remarks: Properties that only running its code would show, and parts without effect.
        titles: Titles of its nodes by their ids.
    """

    file: str
    format: str
    issues: Sequence[Placed] = ()
    read: bool = True
    notes: Sequence[Placed] = ()
    remarks: Sequence[str] = ()
    titles: Mapping[str, str] = MappingProxyType({})


def check(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE", help="Workflows of any format, YAML files of experts, names of shipped ones."),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print a list of files with their issues as JSON.")] = False,
    lossy: Annotated[
        bool,
        typer.Option("--lossy", help="Exit with 0 although results may differ from those on the platform of a file."),
    ] = False,
    object_info: ObjectInfo = None,
) -> None:
    """Print every issue of workflows of any format and of YAML files of experts; nothing is run.

    One issue a line, FILE:LINE: WHERE: MESSAGE [CODE], as operad run prints them. The code lossy marks parts of an
    imported file that may give other results than on its platform, the code note parts that are handled differently
    with the same result. Code that a file names is read and not imported; remarks name it. Exit status: 0 if there are
    no issues except notes, 2 otherwise.
    """
    known = known_formats(object_info) if object_info else None
    reports = [report(file, known) for file in files]
    if as_json:
        print(json.dumps([_as_json(each) for each in reports], indent=2))
    else:
        remarks = (printable(f"{each.file}: {remark}") for each in reports for remark in each.remarks)
        print("\n".join([*_issue_lines(reports), *remarks, _summary_line(reports)]))
    wrong = [issue for each in reports for issue in each.issues if not (lossy and issue.code == LOSSY)]
    raise typer.Exit(EXIT_FAULTS if wrong else 0)


def convert(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE",
            help="A workflow of any format; or the files, or their folder, that configure agents elsewhere.",
        ),
    ],
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="FILE", help="Output file; - (the default) is stdout.")
    ] = STDOUT,
    to: Annotated[
        str | None, typer.Option(metavar="FORMAT", help="The format to write; by default that of the output's name.")
    ] = None,
    into: Annotated[
        str | None,
        typer.Option(
            "--into",
            metavar="FILE",
            help="Write the workflow into this file, of which the rest stays, such as the pixels of a picture; with -o "
            "into a copy of it.",
        ),
    ] = None,
    lossy: Annotated[bool, typer.Option("--lossy", help="Write the output even if results may differ.")] = False,
    clean: Annotated[
        bool,
        typer.Option(
            "--clean", help="Drop what only the platform of the file reads, and name nodes after their titles."
        ),
    ] = False,
    object_info: ObjectInfo = None,
) -> None:
    """Write a workflow in another format; an existing output file is replaced as a whole, unless --into names it.

    Losses, one a line, and remarks on parts of an imported file that operad run handles differently go to stderr. Exit
    status: 0; 1 if results may differ by what is lost (codes loss and lossy, not note) and --lossy is not given, so that
    nothing is written; 2 bad input.
    """
    from operad.configs.foreign import experts_in
    from operad.flows.formats.format import foreign
    from operad.flows.node_graph import titles_of

    if experts := experts_in([Path(file).expanduser() for file in files]):
        if to not in (None, EXPERT):
            raise InputError(f"--to {to}: these files become a file of experts; leave --to out")
        if into:
            raise InputError(f"--into {into}: a file of experts is always written anew; write it by -o")
        for line in islice(error_lines(InvalidError("", experts.losses)), 1, None):
            print(line, file=sys.stderr)
        _refuse_losses([issue.code for issue in experts.losses], "the file of experts", lossy)
        write_file(output, experts.text.encode())
        return
    if len(files) > 1 or Path(files[0]).is_dir():
        raise InputError(f"{', '.join(files)}: no integration converts these together; name one file")
    [file] = files
    known = known_formats(object_info)
    data = read_file(file)
    found, graph = read_workflow(file, data, known)
    wanted = target_format(into or output, to, found, known)
    lost: list[Issue] = []
    if clean:
        graph, lost = _cleaned(graph, found)
    missing = [*wanted.losses(graph), *lost, *wanted.models(graph)]
    lines = found.lines(data)
    remarks = placed_remarks(graph, lines) if (wanted.runs or not found.runs) and wanted.name != found.name else ()
    for line in _issue_lines(
        [Report(file, found.name, list(in_file(missing, lines)), notes=remarks, titles=titles_of(graph))]
    ):
        print(line, file=sys.stderr)
    drops_settings = not set(missing).isdisjoint(foreign(graph, wanted.name))  # then the remarks are lost as well
    codes = [issue.code for issue in (*missing, *(remarks if drops_settings else ()))]
    _refuse_losses(codes, wanted.name, lossy)
    is_copy = wanted.name == found.name and not wanted.runs  # of a picture, whose pixels stay
    old = read_file(into) if into else data if is_copy else None
    write_file(into if into and output == STDOUT else output, wanted.dump_keeping_text(graph, old))
    if to is None and not into and wanted.name == found.name and not output.lower().endswith(wanted.suffix):
        others = f"--to, such as --to {'dify' if found.name != 'dify' else 'operad'}, writes another format"
        print(f"operad: {output} has the format of {file}, {wanted.name}; {others}", file=sys.stderr)


def _cleaned(graph: NodeGraph, found: Format) -> tuple[NodeGraph, list[Issue]]:
    """Return a clean workflow, and the issues that it has only without the data of its platform, whose rules are milder."""
    from operad.flows.formats.format import check_nodes
    from operad.flows.repair.clean import cleaned

    if not found.runs:
        raise InputError(f"--clean is for workflows of typed nodes, and {found.name} has others; leave it out")
    clean = cleaned(graph)
    before = {issue.code for issue in check_nodes(graph)}
    return clean, [replace(issue, code="loss") for issue in check_nodes(clean) if issue.code not in before]


def _refuse_losses(codes: Sequence[str], wanted: str, lossy: bool) -> None:
    """End the command if results may differ by what is lost, and this is not accepted."""
    count = codes.count("loss") + codes.count(LOSSY)
    if count and not lossy:
        losses_text = "1 loss" if count == 1 else f"{count} losses"
        print(f"operad: {losses_text}, nothing written; --lossy writes {wanted} all the same", file=sys.stderr)
        raise typer.Exit(EXIT_LEFT)


def show(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="A workflow of any format, a YAML file of experts, the name of a shipped one."
        ),
    ],
    output: Annotated[
        str | None, typer.Option("-o", "--output", metavar="FILE", help="The picture to write: .svg, .png or .md.")
    ] = None,
) -> None:
    """Draw a workflow, or the workflows of experts with their evaluators and their leader.

    Without -o, the code of a Mermaid flowchart goes to stdout. Exit status: 0, or 2 bad input.
    """
    from operad.flows.node_graph import draw, flowchart
    from operad.operators.media.mermaid import render_mermaid

    kind = None if output is None else picture_kind(output, "-o")
    with found_file(file) as path:
        data = read_file(path)
    if is_configuration(data):
        configuration = preview(file)
        code = experts_chart(configuration)
        page = experts_page(configuration).encode("utf-8", "replace") if kind == "md" else b""
        picture = page or (render_mermaid(code, kind) if kind in ("svg", "png") else b"")
    else:
        _, graph = read_workflow(file, data, known_formats())
        code = flowchart(graph)
        picture = draw(graph, kind) if kind else b""
    if output is None:
        write_file(STDOUT, code.encode("utf-8", "replace"))
    else:
        write_file(output, picture)


def picture_kind(path: str, option: str) -> PictureTarget:
    """Return the kind of picture that a path names.

    Raises:
        InputError: The suffix is not that of a picture.
    """
    from operad.flows.node_graph import PictureTarget

    suffix = Path(path).suffix.removeprefix(".").lower()
    for kind in get_args(PictureTarget):
        if suffix == kind:
            return kind
    kinds = ", ".join(f".{each}" for each in get_args(PictureTarget))
    raise InputError(f"{option} {path}: the name of a picture ends with one of {kinds}")


# Checking


def report(file: str, known: Mapping[str, Format] | None = None) -> Report:
    """Return the issues of a file.

    Args:
        file: Path of the file, or the name of a configuration that comes with operad.
        known: Formats by name; None for all formats, without the classes of a ComfyUI server.
    """
    try:
        with found_file(file) as path:
            data = read_file(path)
    except InvalidError as error:
        return Report(file, "", [placed(issue, file) for issue in error.issues])
    except InputError as error:
        return Report(file, "", [_input_issue("unreadable", error, file)], read=False)
    if is_configuration(data):
        return _report_on_configuration(file)
    from operad.configs.foreign import conversion_needed
    from operad.flows.formats.table import find_format, load_as

    known = known or known_formats()
    guess = find_format(data, known)
    if guess is None and (issue := conversion_needed(Path(file).expanduser())):
        return Report(file, "", [placed(issue, file)])
    try:
        found, graph = load_as(guess, data, file, known)
    except InvalidError as error:
        return Report(file, guess.name if guess else "", [placed(issue, file) for issue in error.issues])
    lines = found.lines(data)
    remarks = placed_remarks(graph, lines)
    losses = [issue for issue in remarks if issue.code == LOSSY]
    notes = [issue for issue in remarks if issue.code != LOSSY]
    from operad.flows.check import Checker
    from operad.flows.node_graph import titles_of
    from operad.flows.oversights import oversights_of
    from operad.operators.nodes import NODE_TYPES

    issues = [*in_file(found.check(graph.runnable), lines), *losses]
    notes += (
        in_file([*oversights_of(Checker(graph.runnable, NODE_TYPES))], lines)
        if found.runs and not graph.is_imported
        else ()
    )
    return Report(file, found.name, issues, notes=notes, titles=titles_of(graph))


def _report_on_configuration(file: str) -> Report:
    try:
        found = preview(file)
    except InvalidError as error:
        return Report(file, CONFIGURATION, [placed(issue, file) for issue in error.issues])
    except InputError as error:
        return Report(file, CONFIGURATION, [_input_issue("input", error, file)])
    none = [] if found.profiles else [Placed("no-experts", "configures no experts; add one under `experts`")]
    return Report(file, CONFIGURATION, none, remarks=found.remarks)


def _input_issue(code: str, error: InputError, file: str) -> Placed:
    """Return an error on a file as an issue, whose message does not repeat the path."""
    message, paths = str(error), [file]
    with suppress(OSError, RuntimeError, ValueError):  # a symlink loop; no such user's home; a zero byte
        paths.append(str(Path(file).expanduser().resolve()))
    for path in paths:
        if message.startswith(f"{path}:"):
            line, _, rest = message.removeprefix(f"{path}:").partition(": ")
            return Placed(code, rest, line=int(line)) if line.isdigit() else Placed(code, message[len(path) + 2 :])
    return Placed(code, message)


def _issue_lines(reports: Sequence[Report]) -> Iterator[str]:
    return (
        issue_line(issue, file_report.file, file_report.titles)
        for file_report in reports
        for issue in (*file_report.issues, *file_report.notes)
    )


def _summary_line(reports: Sequence[Report]) -> str:
    count = sum(len(file_report.issues) for file_report in reports)
    notes = sum(len(file_report.notes) for file_report in reports)
    files = "1 file" if len(reports) == 1 else f"{len(reports)} files"
    issues = "no issues" if not count else "1 issue" if count == 1 else f"{count} issues"
    return f"{files}: {issues}{'' if not notes else ', 1 note' if notes == 1 else f', {notes} notes'}"


def _as_json(report: Report) -> Mapping[str, object]:
    return {
        **{key: value for key, value in report._asdict().items() if key != "titles"},
        "issues": [issue._asdict() for issue in report.issues],
        "notes": [note._asdict() for note in report.notes],
    }


def known_formats(object_info: str | None = None) -> Mapping[str, Format]:
    """Return the formats by name, with the classes of a server if one is given.

    Raises:
        OperadError: The file or the server cannot be read.
    """
    from operad.flows.formats.table import formats

    return formats(object_info)


# Converting


def target_format(
    path: str, to: str | None, source: Format, known: Mapping[str, Format], *, option: bool = True
) -> Format:
    """Return the format to write: `to`, or that of the path's suffix; if several have it, preferably the source's.

    Args:
        path: Path of the output.
        to: Name of the requested format; None to go by the suffix.
        option: True if the command has the option ``--to``.

    Raises:
        InputError: The format is unknown, or the suffix does not determine it.
    """
    if to is not None:
        if to not in known:
            raise InputError(
                f"--to {to}: there is no such format{did_you_mean(to, known)}; there are: {', '.join(known)}"
            )
        return known[to]
    name = path.lower().replace(".yaml", ".yml")
    suffixes = {format_.name: format_.suffix.replace(".yaml", ".yml") for format_ in known.values()}
    full_matches = [key for key, suffix in suffixes.items() if name.endswith(suffix)]
    if full_matches:
        return known[max(full_matches, key=lambda key: len(suffixes[key]))]
    last_suffix = Path(name).suffix
    fitting = [key for key, suffix in suffixes.items() if last_suffix and suffix.endswith(last_suffix)]
    if path == STDOUT or not fitting:
        if not option:
            endings = ", ".join(format_.suffix for format_ in known.values())
            raise InputError(f"{path}: no format has this ending; the endings are: {endings}")
        raise InputError(f"{path}: give the format with --to; there are: {', '.join(known)}")
    if len(fitting) > 1 and source.name not in fitting:
        suffixes_text = ", ".join(f"{known[key].suffix} ({key})" for key in fitting)
        raise InputError(
            f"{path}: several formats have this ending: {suffixes_text}; use one of these endings{', or --to' * option}"
        )
    return known[source.name if source.name in fitting else fitting[0]]


def refuse_unwritable(path: str) -> None:
    """Check that a file can be written, before work is done for it; its content is not changed.

    Raises:
        InputError: The file cannot be written.
    """
    try:
        target = Path(path).expanduser().resolve()
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not target.exists() or target.is_file():
            with tempfile.TemporaryFile(dir=target.parent):
                return
    except (OSError, RuntimeError, ValueError) as error:
        raise unwritable(path, error) from error


def write_file(path: str, data: bytes) -> None:
    """Write to stdout or a file; see `write_whole`.

    Raises:
        InputError: The file cannot be written.
    """
    if path != STDOUT:
        write_whole(path, data)
        return
    if sys.stdout.isatty():
        data = harmless(data.decode("utf-8", "replace")).encode()
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.flush()
