"""Experts offered by a server, from files, each under a unique name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from pydantic import JsonValue

from operad.configs.capabilities import Trust
from operad.configs.inputs import start_params, text_input
from operad.configs.runnable import Source, lasting, opened
from operad.configs.schema import DurableSpec
from operad.flows.formats.format import Greeting
from operad.flows.formats.remarks import greeting_of
from operad.operators.nodes.flow import Start, StartParams, StartVariable, read_inputs
from operad.runtime.agents.agent import Agent
from operad.runtime.agents.leader import Leader
from operad.runtime.events.run_context import MissingDepsError
from operad.runtime.graph.call import OperatorCall
from operad.runtime.values.errors import InputError, OperadError, did_you_mean
from operad.runtime.values.message import Job, Turn, new_id
from operad.runtime.workflow.answer_stream import AnswerStream
from operad.runtime.workflow.base_workflow import BaseWorkflow
from operad.runtime.workflow.memory import Memory
from operad.runtime.workflow.run_checks import check_deps, check_start
from operad.runtime.workflow.workflow import Workflow
from operad.server.api.triggers import Starter, check_secret_of, starters_of_expert, starters_of_nodes
from operad.server.http.problems import RefusedError

if TYPE_CHECKING:
    from operad.runtime.durable.ledger import Ledger


@dataclass(frozen=True, slots=True)
class Offer:
    """An expert that is offered.

    Attributes:
        source: Source of the agent.
        start: Inputs of a workflow of typed nodes; None for a configuration.
        ledger: Ledger of its runs; None if they are not durable.
        durable: Rule for deleting its finished runs.
        greeting: What users see before they write.
        schedule: Times at which it starts by itself; None for none.
        webhook: Requests by which it starts; None for none.
    """

    agent: Agent
    source: Source
    start: StartParams | None = None
    ledger: Ledger | None = None
    durable: DurableSpec | None = None
    greeting: Greeting = field(default_factory=Greeting)
    schedule: Starter | None = None
    webhook: Starter | None = None

    @property
    def name(self) -> str:
        """Name of the expert."""
        return self.agent.profile.name

    @property
    def description(self) -> str:
        """Description of the expert."""
        return self.agent.profile.description

    @property
    def text_input(self) -> str | None:
        """Name of the input that a goal fills; None for none."""
        return text_input(self.start) if self.start else None

    def kept_in(self, ledger: Ledger) -> Offer:
        """Return the offer with a ledger that stores its runs."""
        self.agent.workflow.keep_in(ledger)
        return replace(self, ledger=ledger)

    def job(
        self,
        goal: str,
        context: str,
        inputs: Mapping[str, JsonValue],
        turns: Sequence[Turn] = (),
        session_id: str | None = None,
        started_by: str = "",
    ) -> Job:
        """Return the job of a request.

        If no input is given, the goal becomes the value of `text_input`.

        Raises:
            RefusedError: The inputs do not fit the workflow, or one is a file, whose path would be one of this machine.
        """
        given: dict[str, JsonValue] = dict(inputs)
        if goal and not given and (name := self.text_input):
            given = {name: goal}
        self.refuse_files(given)
        session = session_id or new_id()
        job = Job(goal, context=context, inputs=given, turns=tuple(turns), session_id=session, started_by=started_by)
        if self.start is not None:
            try:
                read_inputs(self.start.variables, job, self.start.defaults)
            except InputError as error:
                where = "" if given else "; POST /runs and the MCP tool take `inputs`, chats do not"
                raise RefusedError(400, f"{self.name!r}: {error}{where}", param="inputs") from error
        return job

    def refuse_files(self, inputs: Mapping[str, JsonValue]) -> None:
        """Refuse inputs of a client that are files, because their paths would be paths of this machine.

        Raises:
            RefusedError: An input is a file.
        """
        files = {name for name, kind in _inputs_in(self.agent.workflow) if kind.is_file}
        if named := [name for name in inputs if name in files and inputs[name] not in (None, "", [])]:
            raise RefusedError(
                400,
                f"inputs {', '.join(map(repr, named))} of {self.name!r}: are files, and a path would be one of the "
                "server's; leave them null, or run it there: operad run FILE --file PATH",
                param="inputs",
            )

    def scheduled_job(self, at: str) -> Job:
        """Return the job of a firing of the schedule, which must exist.

        Args:
            at: The time of the schedule.

        Raises:
            RefusedError: The inputs of the schedule do not fit the workflow.
        """
        assert self.schedule is not None  # noqa: S101 - asked only of offers with a schedule
        return self.job(self.schedule.goal, "", self.schedule.inputs, started_by=f"schedule {at}")

    def check_start(self, job: Job) -> None:
        """Check what a new run checks before it starts, such as inputs that no operator reads.

        Raises:
            RefusedError: The run would fail at once.
        """
        call = OperatorCall(self.agent.reasoner, job)
        has_workers = self.ledger is not None and self.ledger.workers is not None
        try:
            check_start(self.agent.workflow.built(), call, None, has_workers=has_workers)
        except OperadError as error:
            raise RefusedError(400, f"{self.name!r}: {error}") from error

    def answer_stream(self) -> AnswerStream:
        """Return the stream of an answer of the expert."""
        return AnswerStream.of(self.agent.workflow, self.agent.reasoner)

    def memory(self) -> Memory:
        """Return the memory for conversations with the expert."""
        return Memory(self.agent.workflow, self.agent.reasoner, self.agent.memory)


def offers_of(source: Source, trust: Trust = False) -> list[Offer]:
    """Return the experts of a file, and its leader if it has one.

    Args:
        source: The file and the options of the command.
        trust: True if the file may do what it can.

    Raises:
        UntrustedError: The file needs trust.
        InputError: The file does not exist or configures no experts; or functions of one take deps.
        InvalidError: The file is not valid; every issue is listed.
    """
    found = opened(source, trust)
    if found.reference:
        return [python_offer(found.agent(model_name=source.model, base_url=source.base_url), lasting(source))]
    if found.graph is not None:
        start, durable = start_params(found.graph), None
    elif found.configuration is not None and found.configuration.profiles:
        start, durable = None, found.configuration.spec.durable
    else:
        raise InputError(f"{source.file}: configures no experts; add one under `experts`")
    offers: list[Offer] = []
    for agent in found.agents(source.model, source.base_url):
        _check_agent(agent, source)
        name = None if found.graph else agent.profile.name
        lasting_source = lasting(source.model_copy(update={"expert": name}))
        schedule, webhook = (
            starters_of_expert(found.configuration.spec, agent.profile.name)
            if found.configuration
            else starters_of_nodes(start)
        )
        offer = Offer(agent, lasting_source, start, None, durable, greeting_of(found.graph), schedule, webhook)
        _check_starters(offer, source.file)
        offers.append(offer)
    return offers


def python_offer(agent: Agent, source: Source) -> Offer:
    """Return the offer of an agent in Python; a durable workflow keeps its runs in its own ledger.

    Raises:
        InputError: Its functions take deps, or its model is not configured.
    """
    _check_agent(agent, source)
    return Offer(agent, source, ledger=cast("Ledger | None", agent.workflow.ledger))


def _check_agent(agent: Agent, source: Source) -> None:
    if not source.workers:  # workers configure models themselves
        agent.check_model()
    try:
        check_deps(agent.workflow.built())
    except MissingDepsError as error:
        raise InputError(f"{source.file}: {agent.profile.name!r} cannot be served: {error}") from error


def _check_starters(offer: Offer, file: str) -> None:
    """Raise InputError if the schedule or the webhook could start no run, or the webhook has no usable secret."""
    kind = "schedule"
    try:
        if offer.schedule is not None:
            offer.check_start(offer.scheduled_job(""))
        kind = "webhook"
        if offer.webhook is not None:
            check_secret_of(offer.webhook, file)
            if offer.start is None:  # of a start node, the inputs are its own
                given = {each.name: "" for each in offer.webhook.trigger.inputs}
                offer.check_start(offer.job(offer.webhook.goal, "", given))
    except RefusedError as error:
        raise InputError(f"{file}: the {kind} of {error}") from error


def by_name(offers: Sequence[Offer]) -> dict[str, Offer]:
    """Return the offers by name, in order.

    Raises:
        InputError: Two offers have the same name.
    """
    for name, count in Counter(offer.name for offer in offers).items():
        if count > 1:
            sources = [offer.source.file for offer in offers if offer.name == name]
            advice = "give each its own name" if len(set(sources)) == count else "name each file once"
            files = ", ".join(Path(source).name for source in sources)
            raise InputError(f"{count} experts are called {name!r}, in {files}; {advice}")
    return {offer.name: offer for offer in offers}


def find_offer(offers: Mapping[str, Offer], name: str, param: str) -> Offer:
    """Return the offer with a name.

    Raises:
        RefusedError: No expert has the name.
    """
    if name not in offers:
        hint = did_you_mean(name[:200], offers)
        known = ", ".join(offers)
        raise RefusedError(
            404, f"{param}: no expert has the name {name[:200]!r}{hint}; there are: {known}", param=param
        )
    return offers[name]


def _inputs_in(workflow: Workflow) -> Iterator[StartVariable]:
    """Yield the inputs that nodes of a workflow, also of nested ones, take from the job."""
    pending: list[object] = [workflow]
    seen: set[int] = set()
    while pending:
        part = pending.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, Start):
            yield from part.params.variables
        elif isinstance(part, BaseWorkflow):
            pending += part.get_operators()
        elif isinstance(body := getattr(part, "body", None), BaseWorkflow):
            pending.append(cast("BaseWorkflow", body))


def leads(offer: Offer) -> bool:
    """Return True if the offered agent is a leader."""
    return isinstance(offer.agent, Leader)
