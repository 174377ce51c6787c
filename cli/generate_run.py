"""Services of a generated workflow, and its run, for `operad generate --run`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from operad.cli.ask import Lines
from operad.cli.follow import follow, run_to_end
from operad.cli.process import put
from operad.cli.trust_store import trusting
from operad.configs.flow import flow_expert, result_text
from operad.configs.inputs import job_of
from operad.configs.read_capabilities import require_trust
from operad.configs.services import load_services, services_of_environment
from operad.flows.node_graph import NodeGraph
from operad.operators import Services
from operad.runtime.values.message import Job, WorkflowStatus


def services_for(file: Path | None, trust: bool) -> Services:
    """Return the services of a file, or those of the environment.

    Raises:
        InputError: The file does not exist.
        InvalidError: The file is not valid; every issue is listed.
    """
    if file is None:
        return services_of_environment()
    return trusting(lambda trusted: load_services(file, None, trusted), trust)


def run_design(
    graph: NodeGraph,
    given: Sequence[tuple[str, str]],
    model: str | None,
    base_url: str | None,
    lines: Lines,
    services: Services,
    *,
    trust: bool,
) -> WorkflowStatus:
    """Run a generated workflow, and print its outputs to stderr, as stdout may hold the workflow itself.

    Raises:
        InputError: Inputs are missing or wrong.
        UntrustedError: The workflow needs trust, and `trust` is False.
    """
    require_trust(graph.name, graph, trust)
    job, missing = job_of(graph, Job(goal=graph.name), given, may_ask=lines.typed, option="--run")
    expert = flow_expert(graph, services, model, base_url)
    message = run_to_end(follow(expert, job, missing, {}, None, lines, option="--run"))
    put(result_text(message.outputs), sys.stderr)
    if services.made:
        put(f"files: {services.made}", sys.stderr)
    return message.status
