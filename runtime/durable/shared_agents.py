"""Agents shared by drivers and workers: both find the same operators by the same names."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from operad.runtime.agents.agent import Agent
from operad.runtime.agents.leader import Leader
from operad.runtime.durable.description import describe_workflow
from operad.runtime.events import Scope
from operad.runtime.graph.build import Build, Node
from operad.runtime.knowledge.insights import Insights
from operad.runtime.reasoning.reasoner import Reasoner
from operad.runtime.values.errors import InputError
from operad.runtime.workflow.workflow import Workflow

Address = tuple[str, ...]
"""Address of an operator: its agent's name, the ids of the operators that contain it, and its own id."""


@dataclass(frozen=True, slots=True)
class Found:
    """Operator at an address.

    Attributes:
        build: Workflow that contains the operator.
        insights: Insights of that workflow, or of the nearest enclosing workflow that has any.
    """

    build: Build
    insights: Insights | None
    node: Node
    reasoner: Reasoner


class Served:
    """Agents whose operators workers may execute.

    Args:
        name: Common name of the agents, such as the name of their file.
        agents: The agents; the experts of a leader count as well.

    Attributes:
        name: Common name of the agents.
        queue: Queue of the requests for these agents. Its name depends on the behaviour of the agents, so that workers
            that were started from another configuration never take the requests.
    """

    def __init__(self, name: str, agents: Sequence[Agent]) -> None:
        every = {each.profile.name: each for agent in agents for each in _with_experts(agent)}
        described = {
            key: describe_workflow(each.workflow) for key, each in every.items() if not isinstance(each, Leader)
        }
        digest = hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()[:12]
        self.name = name
        self.queue = f"operad {re.sub(r'[^A-Za-z0-9._-]+', '-', name)[-60:]} {digest}"
        self._found: dict[Address, Found] = {}
        self._addresses: dict[tuple[str, int, int], Address] = {}
        self._agents: dict[int, str] = {}
        for key, agent in every.items():
            if not isinstance(agent, Leader):
                self._agents.setdefault(id(agent.workflow.built()), key)
                for address, build, insights, node in _operators_in(agent.workflow, (key,)):
                    self._found.setdefault(address, Found(build, insights, node, agent.reasoner))
                    self._addresses.setdefault((key, id(build), id(node)), address)

    def address_of(self, scope: Scope, node: Node) -> Address | None:
        """Return the address of the operator that runs in a scope.

        None is returned if the operator was created, or its workflow changed, after this object.
        """
        runs = [outer.run for outer in scope.outwards()]
        agent = next((self._agents[id(run.build)] for run in runs if id(run.build) in self._agents), "")
        return self._addresses.get((agent, id(runs[0].build), id(node)))

    def find(self, address: Sequence[str]) -> Found:
        """Return the operator at an address.

        Raises:
            InputError: There is no operator at this address.
        """
        found = self._found.get(tuple(address))
        if found is None:
            raise InputError(
                f"{self.name}: has no operator {'/'.join(address)!r}; was the configuration changed after the worker started?"
            )
        return found


def _with_experts(agent: Agent) -> Iterator[Agent]:
    yield agent
    if isinstance(agent, Leader):
        yield from agent.experts


def _operators_in(
    workflow: Workflow, around: Address, insights: Insights | None = None, seen: tuple[Any, ...] = ()
) -> Iterator[tuple[Address, Build, Insights | None, Node]]:
    """Yield the operators of a workflow that do work of their own, including those of nested workflows.

    Args:
        around: Address of the operator or agent that contains the workflow.
        insights: Insights of the nearest enclosing workflow that has any.
        seen: Enclosing workflows, which are not visited again.
    """
    build, insights = workflow.built(), workflow.insights or insights
    for node in build.nodes:
        address = (*around, node.operator.get_id())
        inside = cast("Sequence[Workflow] | None", node.operator.runs_workflows)
        if inside is None:
            yield address, build, insights, node
        for body in inside or ():
            if body not in seen:
                yield from _operators_in(body, address, insights, (*seen, body))
