"""Mermaid flowchart of a configuration of experts."""

from __future__ import annotations

from collections.abc import Iterator

from operad.configs.loader import Configuration
from operad.runtime.graph.chart import chart_lines, label


def experts_chart(configuration: Configuration) -> str:
    """Return the workflow of each expert in a frame, with its evaluators; arrows lead from the leader to the experts.

    Returns:
        Mermaid's code.
    """
    return "\n".join(["flowchart TD", *_lines(configuration)]) + "\n"


def experts_page(configuration: Configuration) -> str:
    """Return the flowchart and a table of the experts as Markdown."""
    spec = configuration.spec
    members = [*([spec.leader] if spec.leader else []), *spec.experts]
    rows = [("expert", "does"), ("---", "---"), *((member.profile.name, member.profile.desc) for member in members)]
    table = "\n".join(f"| {' | '.join(map(_cell, row))} |" for row in rows)
    return (
        f"# {_cell(spec.app.name or configuration.name)}\n\n```mermaid\n{experts_chart(configuration)}```\n\n{table}\n"
    )


def _lines(configuration: Configuration) -> Iterator[str]:
    lead = configuration.spec.leader
    if lead:
        yield f"  leader{{{{{label(lead.profile.name)}}}}}"
    for number, (name, workflow) in enumerate(configuration.workflows.items()):
        yield f"  subgraph x{number} [{label(name)}]"
        yield from chart_lines(workflow.graph(), f"x{number}", "    ")
        yield "  end"
        if lead:
            yield f"  leader --> x{number}"


def _cell(text: str) -> str:
    return "".join(
        f"\\{character}" if character in "\\|`*_[]<>#" else character for character in " ".join(text.split())
    )
