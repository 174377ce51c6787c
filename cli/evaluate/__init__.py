"""`operad evaluate`: scores of workflows by the metrics of the papers, with results kept in a file."""

from __future__ import annotations

import typer

from operad.cli.evaluate.comfy import comfy
from operad.cli.evaluate.pass_rate import pass_rate
from operad.cli.evaluate.resolve import resolve
from operad.cli.evaluate.worf import worf

app = typer.Typer(
    help="Score workflows with the metrics of WorFBench, ComfyFlow and Chat2Workflow.",
    no_args_is_help=True,
    add_completion=False,
)
app.command()(worf)
app.command()(comfy)
app.command("pass")(pass_rate)
app.command()(resolve)
