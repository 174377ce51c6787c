"""Reports of evaluations: tables at a terminal, JSON, plots."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from operad.cli.formats import refuse_unwritable, write_file
from operad.cli.process import put
from operad.runtime.evaluation.tables import Table, cell_text
from operad.runtime.values.errors import InputError, MissingExtraError
from operad.runtime.values.pip import pip_install
from operad.runtime.values.text import printable

SUFFIXES = (".png", ".svg")
_WIDEST = 160
"""Width of the output in columns if it is not a terminal."""


class Plot(NamedTuple):
    """Rates as a plot, in the style of the papers.

    Attributes:
        axis: Label of the x axis, such as ``round``.
        places: Labels along the x axis, in order.
        series: For each name of the legend, the rates from 0 to 1 at these places; None for a missing rate.
        lines: True for lines between consecutive places, False for bars.
    """

    title: str
    axis: str
    places: Sequence[str]
    series: Mapping[str, Sequence[float | None]]
    lines: bool = False


class Report(NamedTuple):
    """Report of an evaluation.

    Attributes:
        summary: The figures as JSON.
        items: The results of the items as JSON.
        tables: The figures as tables.
        plots: The figures as plots.
    """

    summary: Mapping[str, Any]
    items: Sequence[Mapping[str, Any]]
    tables: Sequence[Table] = ()
    plots: Sequence[Plot] = ()


def check_plot(path: Path | None) -> None:
    """Check that a plot can be written to a path, before anything is scored.

    Raises:
        InputError: The plot cannot be written.
        MissingExtraError: The plotting package is not installed.
    """
    if path is None:
        return
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"--plot {path}: must end in {' or '.join(SUFFIXES)}")
    if not path.parent.is_dir():
        raise InputError(f"--plot {path}: there is no folder {str(path.parent)!r}")
    refuse_unwritable(str(path))
    _matplotlib("figure")


def show(report: Report, *, as_json: bool, plot: Path | None) -> None:
    """Print a report to stdout, as tables or as JSON, and draw it if asked to. Tables without rows are left out."""
    if as_json:
        put(json.dumps({"summary": report.summary, "items": report.items}, indent=2, ensure_ascii=False))
    else:
        console = Console() if Console().is_terminal else Console(width=_WIDEST)
        for table in report.tables:
            if table.rows:
                console.print(_rich(table))
    if plot is not None:
        draw(report.plots, plot)


def draw(plots: Sequence[Plot], path: Path) -> None:
    """Draw plots below each other; the file is written as a whole.

    Args:
        path: The file, .png or .svg.

    Raises:
        InputError: The file cannot be written.
        MissingExtraError: The plotting package is not installed.
    """
    figure: Any = _matplotlib("figure").Figure(figsize=(9, 4 * max(len(plots), 1)), layout="constrained")
    for number, plot in enumerate(plots, start=1):
        _plot(figure.add_subplot(max(len(plots), 1), 1, number), plot)
    picture = BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings about characters that the font lacks
        figure.savefig(picture, format=path.suffix.lower().lstrip("."))
    write_file(str(path), picture.getvalue())


def _plot(axes: Any, plot: Plot) -> None:
    width = 0.8 / max(len(plot.series), 1)
    for number, (name, rates) in enumerate(plot.series.items()):
        percentages = [float("nan") if rate is None else 100 * rate for rate in rates]
        if plot.lines:
            axes.plot(range(len(percentages)), percentages, marker="o", label=_plain(name))
        else:
            offset = (number - (len(plot.series) - 1) / 2) * width
            axes.bar([place + offset for place in range(len(percentages))], percentages, width, label=_plain(name))
    axes.set_xticks(range(len(plot.places)), [_plain(place) for place in plot.places])
    axes.set(title=_plain(plot.title), xlabel=plot.axis, ylabel="%", ylim=(0, 100))
    axes.legend(fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))


def _plain(text: str) -> str:
    """Return a text that matplotlib shows literally: not as a formula, and also in legends."""
    text = printable(text).replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text


def _matplotlib(module: str) -> Any:
    try:
        return import_module(f"matplotlib.{module}")
    except ImportError as error:
        raise MissingExtraError(f"--plot needs matplotlib ({error}): {pip_install('evaluate')}") from error


def _rich(table: Table) -> RichTable:
    rich = RichTable(title=table.title, title_justify="left")
    for number, name in enumerate(table.columns):
        numbers = all(not isinstance(row[number], str) for row in table.rows)
        rich.add_column(name, justify="right" if numbers and number else "left")
    for row in table.rows:
        rich.add_row(*(Text(printable(cell_text(cell))) for cell in row))  # no markup: cells contain text from files
    return rich
