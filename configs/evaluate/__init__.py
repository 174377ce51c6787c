"""`operad evaluate`: workflows scored like the papers do, from files, with what was done kept."""

from __future__ import annotations

import typer

app = typer.Typer(
    help="Score workflows like the papers do: WorFBench, ComfyFlow, Chat2Workflow.",
    no_args_is_help=True,
    add_completion=False,
)
