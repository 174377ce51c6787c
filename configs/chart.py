"""Mermaid flowchart of a configuration of experts."""

from __future__ import annotations

from operad.configs.loader import Configuration
from operad.runtime.graph.chart import draw
from operad.runtime.values.mermaid import Flowchart, markdown_page


def experts_chart(configuration: Configuration) -> str:
    """Return the workflow of each expert in a frame, with its evaluators; arrows lead from the leader to the experts.

    Returns:
        Mermaid's code.
    """
    flowchart, leader = Flowchart(), configuration.spec.leader
    if leader:
        flowchart.node("leader", leader.profile.name, "hexagon")
    for number, (name, workflow) in enumerate(configuration.workflows.items()):
        flowchart.begin_frame(number, name)
        draw(workflow.graph(), flowchart, (number,))
        flowchart.end_frame()
        if leader:
            flowchart.edge("leader", number)
    return flowchart.code()


def experts_page(configuration: Configuration) -> str:
    """Return the flowchart and a table of the experts as Markdown."""
    spec = configuration.spec
    members = [*([spec.leader] if spec.leader else []), *spec.experts]
    rows = [(member.profile.name, member.profile.desc) for member in members]
    title = spec.app.name or configuration.name
    return markdown_page(title, experts_chart(configuration), ("expert", "does"), rows)
