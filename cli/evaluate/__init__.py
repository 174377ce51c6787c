"""`operad evaluate`: experts on cases, evaluators on labelled cases, and workflows by the metrics of papers."""

from __future__ import annotations

import typer

from operad.cli.evaluate.cases import cases, judge
from operad.cli.evaluate.comfy import comfy
from operad.cli.evaluate.pass_rate import pass_rate
from operad.cli.evaluate.resolve import resolve
from operad.cli.evaluate.worf import worf

app = typer.Typer(
    help="Evaluate experts on cases, measure evaluators, and score workflows with the metrics of papers.",
    no_args_is_help=True,
    add_completion=False,
)
app.command()(cases)
app.command()(judge)
app.command()(worf)
app.command()(comfy)
app.command("pass")(pass_rate)
app.command()(resolve)
