"""Experts offered by a server, from files, each under a unique name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from pydantic import JsonValue

from operad.configs.code import Trust
from operad.configs.flow import find_graph
from operad.configs.inputs import start_variables
from operad.configs.loader import load
from operad.configs.runnable import Source, lasting, make
from operad.configs.schema import DurableSpec
from operad.operators.nodes.flow import Start, StartVariable, read_inputs
from operad.operators.variables import VariableType
from operad.runtime.agents.agent import Agent
from operad.runtime.agents.leader import Leader
from operad.runtime.values.errors import InputError, did_you_mean
from operad.runtime.values.message import Job, Turn, new_id
from operad.runtime.workflow.answer_stream import answering_operator
from operad.runtime.workflow.memory import Memory
from operad.runtime.workflow.workflow import Workflow
from operad.server.problems import RefusedError

if TYPE_CHECKING:
    from operad.runtime.durable.ledger import Ledger


@dataclass(frozen=True, slots=True)
class Offer:
    """An expert that is offered.

    Attributes:
        agent: The agent.
        source: Source of the agent.
        variables: Inputs of a workflow of typed nodes; None for a configuration.
        ledger: Ledger of its runs; None if they are not durable.
        durable: Rule for deleting its finished runs.
    """

    agent: Agent
    source: Source
    variables: Sequence[StartVariable] | None = None
    ledger: Ledger | None = None
    durable: DurableSpec | None = None

    @property
    def name(self) -> str:
        """Name of the expert."""
        return self.agent.profile.name

    @property
    def description(self) -> str:
        """Description of its abilities."""
        return self.agent.profile.description

    def kept_in(self, ledger: Ledger) -> Offer:
        """The same, with its runs kept."""
        self.agent.workflow.keep_in(ledger)
        return replace(self, ledger=ledger)

    def job(
        self,
        goal: str,
        context: str,
        inputs: Mapping[str, JsonValue],
        turns: Sequence[Turn] = (),
        session_id: str | None = None,
    ) -> Job:
        """Return the job of a request.

        If a workflow of typed nodes has a single input of type text, and no input is given, the goal becomes its value.

        Raises:
            RefusedError: The inputs are not those of the workflow; or one is a file, which would be one of this machine.
        """
        given: dict[str, JsonValue] = dict(inputs)
        if not given and self.variables and [kind for _, kind in self.variables] == [VariableType.STRING]:
            given = {self.variables[0].name: goal}
        files = {name for name, kind in _inputs_in(self.agent.workflow) if kind.is_file}
        if named := [name for name in given if name in files and given[name] not in (None, "", [])]:
            raise RefusedError(
                400,
                f"inputs {', '.join(map(repr, named))} of {self.name!r}: are files, and a path would be one of the "
                "server's; leave them null, or run it there: operad run FILE --file PATH",
                param="inputs",
            )
        job = Job(goal=goal, context=context, inputs=given, turns=tuple(turns), session_id=session_id or new_id())
        if self.variables is not None:
            try:
                read_inputs(self.variables, job)
            except InputError as error:
                raise RefusedError(400, f"{self.name!r}: {error}", param="inputs") from error
        return job

    def streaming_operator(self) -> str | None:
        """The id of the operator whose words are the answer as they come; None where that shows at the end only."""
        return answering_operator(self.agent.workflow, self.agent.reasoner)

    def memory(self) -> Memory:
        """Return the memory of its conversations."""
        return Memory(self.agent.workflow, self.agent.reasoner, self.agent.memory)


def offers_of(source: Source, trust: Trust = False) -> list[Offer]:
    """The experts of a file, and its leader, if it has one.

    Args:
        source: The file, and what the command was given.
        trust: True if the code that it names may run.

    Raises:
        UntrustedError: It names code that is not trusted.
        InputError: There is no such file, or it has no experts.
        InvalidError: It cannot be used; every issue is listed.
    """
    graph = find_graph(source.file)
    if graph is not None:
        return [Offer(make(source, trust).agent, lasting(source), start_variables(graph))]
    if source.services is not None:
        raise InputError(f"{source.file} has its own `services`; remove --services")
    configuration = load(source.file, trust=trust)
    name, url = source.model, source.base_url
    agents: list[Agent] = []
    if configuration.spec.leader is not None:
        agents.append(configuration.leader(model_name=name, base_url=url))
    for profile in configuration.profiles:
        agents.append(configuration.expert(profile.name, model_name=name, base_url=url))
    if not agents:
        raise InputError(f"{source.file}: configures no experts; add one under `experts`")
    for agent in agents:
        agent.check_model()
    return [
        Offer(
            agent,
            lasting(source.model_copy(update={"expert": agent.profile.name})),
            durable=configuration.spec.durable,
        )
        for agent in agents
    ]


def by_name(offers: Sequence[Offer]) -> dict[str, Offer]:
    """Offers by their names, in order.

    Raises:
        InputError: Two have one name.
    """
    for name, count in Counter(offer.name for offer in offers).items():
        if count > 1:
            files = ", ".join(Path(offer.source.file).name for offer in offers if offer.name == name)
            raise InputError(f"{count} experts are called {name!r}, in {files}; give each its own name")
    return {offer.name: offer for offer in offers}


def find_offer(offers: Mapping[str, Offer], name: str, param: str) -> Offer:
    """The offer of that name.

    Raises:
        RefusedError: There is none.
    """
    if name not in offers:
        hint = did_you_mean(name[:200], offers)
        there = ", ".join(offers)
        raise RefusedError(
            404, f"{param}: no expert has the name {name[:200]!r}{hint}; there are: {there}", param=param
        )
    return offers[name]


def _inputs_in(workflow: Workflow) -> Iterator[StartVariable]:
    """The inputs that nodes in a workflow take from its job, however deep inside."""
    open_: list[object] = [workflow]
    seen: set[int] = set()
    while open_:
        part = open_.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, Start):
            yield from part.params.variables
        elif isinstance(part, Workflow):
            open_ += part.get_operators()
        elif isinstance(body := getattr(part, "body", None), Workflow):
            open_.append(cast("Workflow", body))


def leads(offer: Offer) -> bool:
    """Return True if it is a leader."""
    return isinstance(offer.agent, Leader)
