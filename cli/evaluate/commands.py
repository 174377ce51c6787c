"""Commands of `operad evaluate`, also those of integrations, which import the other modules of this package."""

from __future__ import annotations

import typer

from operad.cli.evaluate.cases import cases, judge
from operad.operators.integration import integrations, named

app = typer.Typer(
    help="Evaluate experts on cases, measure evaluators, and score workflows with the metrics of papers.",
    no_args_is_help=True,
    add_completion=False,
)
app.command()(cases)
app.command()(judge)
for each in integrations():
    for name, home in each.commands.items():
        app.command(name)(named(home))
