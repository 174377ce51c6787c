"""Ports, joins and rounds on random graphs, held to a reference that is written straight from the rules.

The reference (`Reference`) keeps no counters and no queue: from the nodes that have ended so far it derives, by
recursion alone, what each node's state is. The scheduler is compared with it after every single step, in a random
order of finishing; both engines on what operators that really suspend saw happen.

Where `any` joins race, what happens depends on the order. The order that did happen is noted, and all else follows
from it: which nodes had to be at work at each moment, and whose message each join was given.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from random import Random
from typing import Any, Literal

from amounts import examples
from hypothesis import event, given
from random_graphs import NO_PORTS, Graph, RandomNode, graphs, orders, sane

from operad.runtime.events import Event, OperatorKept, OperatorSkipped, RoundStarted, current_scope
from operad.runtime.graph.edges import Port
from operad.runtime.graph.schedule import Plan, Progress, Skip, Taken
from operad.runtime.values.errors import SkippedError
from operad.runtime.values.message import Job, WorkflowMessage, WorkflowStatus
from operad.runtime.workflow.workflow import BuiltinWorkflow, DbgptWorkflow, Workflow

JOB = Job(goal="goal", id="job")
RENDEZVOUS = 20.0


def plan_of(graph: Graph) -> Plan:
    return Plan(
        {str(n): [str(parent) for parent in node.before] for n, node in enumerate(graph)},
        {str(n): node.join for n, node in enumerate(graph)},
        {(str(p), str(n)): ports for n, node in enumerate(graph) for p, ports in node.before.items() if ports},
    )


# The reference

State = Literal["ended", "skipped", "may run", "waits"]


@dataclass(frozen=True)
class Reference:
    """What the rules say about a graph of which some nodes have ended and taken ports, in that order."""

    graph: Graph
    ended: Mapping[int, Taken] = field(default_factory=dict)

    def edge(self, parent: int, child: int) -> bool | None:
        """Whether it is taken; None while that is open."""
        state = self.state(parent)
        if state == "ended":
            ports, took = self.graph[child].before[parent], self.ended[parent]
            return not ports or took is None or bool(ports & set(took))
        return False if state == "skipped" else None

    def state(self, node: int) -> State:
        if node in self.ended:
            return "ended"
        edges = [self.edge(parent, node) for parent in self.graph[node].before]
        if not edges:
            return "may run"
        runs, skipped = {
            "all_done": (None not in edges and True in edges, True not in edges and None not in edges),
            "all": (all(edges), False in edges),
            "any": (True in edges, not any(edge is not False for edge in edges)),
        }[self.graph[node].join]
        return "may run" if runs else "skipped" if skipped else "waits"

    def are(self, state: State) -> set[int]:
        return {node for node in range(len(self.graph)) if self.state(node) == state}

    def inputs(self, node: int) -> list[int]:
        taken = [parent for parent in self.graph[node].before if self.edge(parent, node)]
        if self.graph[node].join == "any":
            return [min(taken, key=list(self.ended).index)] if taken else []
        return taken

    def then(self, node: int, ports: Taken) -> Reference:
        return Reference(self.graph, {**self.ended, node: ports})

    def to_the_end(self, choose: Callable[[int], Taken]) -> Reference:
        """When all has ended that ever runs. Which these are does not depend on the order."""
        here = self
        while ready := here.are("may run"):
            here = here.then(min(ready), choose(min(ready)))
        return here

    def whys(self, node: int) -> set[tuple[int, int]]:
        """The edges that were not taken, though the node before them ran, and that a skipped node was skipped for."""
        found: set[tuple[int, int]] = set()
        for parent in self.graph[node].before:
            if self.edge(parent, node) is False:
                found |= {(parent, node)} if self.state(parent) == "ended" else self.whys(parent)
        return found

    def reasons(self, node: int) -> set[str]:
        """The same in words."""
        return {self._reason(parent, child) for parent, child in self.whys(node)}

    def _reason(self, parent: int, child: int) -> str:
        took = ", ".join(self.ended[parent] or ())
        ports = " or ".join(repr(port) for port in sorted(self.graph[child].before[parent]))
        return f"'{parent}' took {f'port {took!r}' if took else 'no port'}, not {ports}"


def tails(graph: Graph) -> list[int]:
    return [n for n in range(len(graph)) if not any(n in node.before for node in graph)]


def reachable(graph: Graph, start: Iterable[int]) -> set[int]:
    found = set(start)
    for child, node in enumerate(graph):
        if found & node.before.keys():
            found.add(child)
    return found


def with_unfinished(graph: Graph, nodes: Iterable[int], unfinished: set[int]) -> set[int]:
    """The nodes, and those of the unfinished ones that they wait for."""
    found = set(nodes)
    for child in reversed(range(len(graph))):
        if child in found:
            found |= graph[child].before.keys() & unfinished
    return found


# The scheduler alone


def check_step(before: Reference, after: Reference, ready: Sequence[int], skips: Sequence[Skip]) -> None:
    """Compare what the scheduler said with what changed."""
    assert sorted(ready) == sorted(after.are("may run") - before.are("may run"))
    assert sorted(skip.node for skip in skips) == sorted(after.are("skipped") - before.are("skipped"))
    for skip in skips:
        assert (skip.parent, skip.child) in after.whys(skip.node)


def play(
    progress: Progress, here: Reference, at_work: list[int], choose: Callable[[int], Taken], order: Random
) -> Reference:
    """Let nodes end in a random order, and compare after each."""
    while at_work:
        node = at_work.pop(order.randrange(len(at_work)))
        before, here = here, here.then(node, choose(node))
        ready = progress.finish(node, choose(node))
        check_step(before, here, ready, progress.skips())
        for started in ready:
            assert progress.inputs(started) == here.inputs(started)
        at_work += ready
    assert not here.are("waits")
    return here


@examples(200, 1000)
@given(graphs(), orders)
def test_after_every_step_the_scheduler_says_what_the_rules_say(graph: Graph, order: Random) -> None:
    progress = Progress(plan_of(graph))
    start = Reference(graph)

    assert sorted(progress.ready) == sorted(start.are("may run"))
    assert not progress.skips()
    ended = play(progress, start, list(progress.ready), lambda node: graph[node].choices[0], order)

    event("some are skipped" if ended.are("skipped") else "all run")
    assert ended.ended.keys() == start.to_the_end(lambda node: graph[node].choices[0]).ended.keys()


@examples(100, 500)
@given(graphs(), orders)
def test_a_later_round_of_the_scheduler_goes_on_from_what_is_kept(graph: Graph, order: Random) -> None:
    plan = plan_of(graph)
    first = play(first_try := Progress(plan), Reference(graph), first_try.ready, lambda n: graph[n].choices[0], order)
    again = reachable(graph, [n for n, node in enumerate(graph) if node.blamed[0]])
    kept = Reference(graph, {n: ports for n, ports in sorted(first.ended.items()) if n not in again})
    stay = [Skip(n, *min(first.whys(n))) for n in sorted(first.are("skipped") - again)]

    progress = Progress(plan, kept.ended, stay)

    assert sorted(progress.ready) == sorted(kept.are("may run"))
    assert {skip.node for skip in progress.skips()} == kept.are("skipped") & again
    for started in progress.ready:
        assert progress.inputs(started) == kept.inputs(started)
    ended = play(progress, kept, list(progress.ready), lambda node: graph[node].choices[1], order)

    ran_anew = ended.ended.keys() - kept.ended.keys()
    event("something runs that was skipped" if ran_anew & first.are("skipped") else "nothing new runs")
    event("something is skipped that ran" if ended.are("skipped") & first.ended.keys() else "nothing new is skipped")
    assert ran_anew <= again


# The engines


@dataclass
class Notes:
    """What happened in a run, in order: ``("start", node, round, texts)``, ``("end", node, round, text)``, and
    ``("kept", node, round, None)`` of one that keeps its message.
    """

    moments: list[tuple[str, int, int, Any]] = field(default_factory=list)
    judged: list[list[str]] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    """Those that were stopped."""

    def hear(self, event: Event) -> None:
        self.events.append(event)
        if isinstance(event, OperatorKept) and event.operator_id != "judge":
            self.moments.append(("kept", int(event.operator_id), event.round, None))


class Node:
    """An operator that notes when it starts and ends, and takes its ports."""

    def __init__(self, number: int, node: RandomNode, notes: Notes) -> None:
        self.number, self.node, self._notes = number, node, notes

    def get_id(self) -> str:
        return str(self.number)

    async def execute(
        self, reasoner: Any, job: Any, workflow_messages: Any = None, previous_expert_outputs: Any = None, lesson=None
    ) -> WorkflowMessage:
        scope = current_scope()
        assert scope
        heard = [message.scratchpad for message in workflow_messages]
        self._notes.moments.append(("start", self.number, scope.round, heard))
        try:
            for _ in range(self.node.pauses):
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            await asyncio.sleep(0)  # its clean-up takes time
            self._notes.left.append(self.number)
            raise
        text = f"{self.number}@{scope.round}({' '.join(heard)})"
        self._notes.moments.append(("end", self.number, scope.round, text))
        choice = self.node.choices[0 if scope.round == 1 else 1]
        return WorkflowMessage(scratchpad=text, ports=None if choice is None else tuple(choice))


class Judge:
    """Blames these in the first rounds, and is content in the last."""

    def __init__(self, blame: Sequence[Sequence[int]], notes: Notes) -> None:
        self._blame, self._notes = blame, notes

    def get_id(self) -> str:
        return "judge"

    async def execute(
        self, reasoner: Any, job: Any, workflow_messages: Any = None, previous_expert_outputs: Any = None, lesson=None
    ) -> WorkflowMessage:
        self._notes.judged.append([message.scratchpad for message in workflow_messages])
        if len(self._notes.judged) > len(self._blame):
            return WorkflowMessage()
        blame = self._blame[len(self._notes.judged) - 1]
        return WorkflowMessage(status=WorkflowStatus.EXECUTION_ERROR, blame=tuple(map(str, blame)))


def run(
    engine: type[Workflow], graph: Graph, blame: Sequence[Sequence[int]] = ()
) -> tuple[Notes, WorkflowMessage | SkippedError]:
    notes = Notes()
    workflow = engine(max_rounds=len(blame) + 1, listeners=[notes.hear])
    operators = [Node(n, node, notes) for n, node in enumerate(graph)]
    for operator in operators:
        before = [
            link
            for parent, ports in operator.node.before.items()
            for link in ([Port(operators[parent], port) for port in sorted(ports)] or [operators[parent]])
        ]
        workflow.add_operator(operator, before, join=operator.node.join)
    if blame:
        workflow.set_evaluator(Judge(blame, notes))

    async def wait() -> WorkflowMessage:
        return await asyncio.wait_for(workflow.aexecute(JOB, None), RENDEZVOUS)  # type: ignore[arg-type]

    try:
        return notes, asyncio.run(wait())
    except SkippedError as error:
        return notes, error


@dataclass
class Round:
    """What is known when a round begins.

    Attributes:
        number: Its number.
        kept: The operators that do not run again.
        repaired: The operators at fault, and those that are suspected.
        before: The operators that had a message when the last round had ended, and the ports that they took.
    """

    number: int
    kept: Reference
    repaired: Collection[int] = ()
    before: Mapping[int, Taken] = field(default_factory=dict)


def replay(graph: Graph, round: Round, notes: Notes, texts: dict[int, str], heard: dict[int, list[str]]) -> Reference:
    """Hold one round to the rules, moment by moment, and note in `texts` what was said, and in `heard` to what.

    Whoever starts must be allowed to by then, and hears what the rules say, in order. An operator that was kept
    counts as having ended first, so that an `any` join hears one of those if their edges to it are taken. An operator
    that would hear what it heard before keeps its message and its ports, unless it is repaired.

    Returns:
        Where it ended.
    """
    here, started = round.kept, set[int]()
    for what, node, when, text in notes.moments:
        if when != round.number:
            continue
        inputs = [texts[parent] for parent in here.inputs(node)]
        is_same = node in round.before and node not in round.repaired and inputs == heard[node]
        if what == "end":
            texts[node] = text
            here = here.then(node, graph[node].choices[0 if round.number == 1 else 1])
            continue
        assert here.state(node) == "may run", f"{node} started too early"
        assert any(here.state(tail) != "skipped" for tail in tails(graph)), f"{node} started in vain"
        if what == "kept":
            assert is_same, f"{node} was kept, but hears something else"
            here = here.then(node, round.before[node])
        else:
            assert node not in started, f"{node} started twice"
            assert not is_same, f"{node} hears what it heard before"
            started.add(node)
            assert text == inputs
            heard[node] = inputs
    assert set(here.ended) - set(round.kept.ended) | set(notes.left) >= started, "one was started, and left alone"
    return here


def check_result(
    graph: Graph,
    ended: Reference,
    texts: Mapping[int, str],
    judged: list[str] | None,
    said: WorkflowMessage | Exception,
) -> None:
    ran = [tail for tail in tails(graph) if ended.state(tail) == "ended"]
    assert ran or isinstance(said, SkippedError)
    assert all(ended.state(tail) in ("ended", "skipped") for tail in tails(graph)), "it ended too early"
    if isinstance(said, SkippedError):
        assert not ran
        for tail in tails(graph):
            assert any(f"'{tail}' because {reason};" in f"{said};" for reason in ended.reasons(tail)), str(said)
        return
    assert isinstance(said, WorkflowMessage)
    heard = [texts[tail] for tail in ran]
    assert judged in (None, heard)
    assert said.scratchpad == "\n\n".join(heard)
    assert [part.operator_id for part in said.parts] == ([str(tail) for tail in ran] if len(ran) > 1 else [])


def skipped_in(notes: Notes, round: int) -> dict[int, str]:
    return {
        int(e.operator_id): e.reason
        for e in notes.events
        if isinstance(e, OperatorSkipped) and e.round == round and e.operator_id != "judge"
    }


def check_unfinished(graph: Graph, ended: Reference, must: Reference, said: object) -> None:
    """What ran is what runs by the rules; but what nobody waits for any more may have been stopped."""
    assert ended.ended.keys() <= must.ended.keys()
    if isinstance(said, SkippedError):
        return
    assert [ended.state(tail) for tail in tails(graph)] == [must.state(tail) for tail in tails(graph)]
    if all(node.join == "all_done" for node in graph):
        assert ended.ended.keys() == must.ended.keys()


def check_one_round(engine: type[Workflow], graph: Graph) -> None:
    graph = sane(graph)
    notes, said = run(engine, graph)

    texts: dict[int, str] = {}
    ended = replay(graph, Round(1, Reference(graph)), notes, texts, {})

    check_result(graph, ended, texts, None, said)
    must = Reference(graph).to_the_end(lambda node: graph[node].choices[0])
    check_unfinished(graph, ended, must, said)
    skipped = skipped_in(notes, 1)
    assert skipped.keys() == ended.are("skipped")
    assert all(reason in ended.reasons(node) for node, reason in skipped.items())
    event("all tails are skipped" if isinstance(said, SkippedError) else "some are skipped" if skipped else "all run")
    event("some are stopped" if notes.left else "none is stopped")


@examples(100, 300)
@given(graphs())
def test_a_run_does_what_the_rules_say(graph: Graph) -> None:
    check_one_round(BuiltinWorkflow, graph)


@examples(50, 150)
@given(graphs())
def test_a_run_by_dbgpt_does_what_the_rules_say(graph: Graph) -> None:
    check_one_round(DbgptWorkflow, graph)


def check_rounds(engine: type[Workflow], graph: Graph) -> None:
    """In each round but the first, those run that are blamed, and all that depends on them and hears something else.

    So do operators that a race left unfinished, where one that is to run waits for them; and the predecessors that ran,
    of those that are blamed twice; and all that ran, if nobody is blamed.
    """
    graph = sane(graph)
    blame = [[n for n, node in enumerate(graph) if node.blamed[verdict]] for verdict in range(2)]
    notes, said = run(engine, graph, blame)

    texts: dict[int, str] = {}
    heard: dict[int, list[str]] = {}
    to_run, this = set(range(len(graph))), Round(1, Reference(graph))
    ended = this.kept
    announced = [set(map(int, set(e.operators) - {"judge"})) for e in notes.events if isinstance(e, RoundStarted)]
    for number, operators in enumerate(announced, 1):
        assert operators == to_run
        ended = replay(graph, this, notes, texts, heard)
        assert ended.ended.keys() - this.kept.ended.keys() <= to_run
        took = {**{n: node.choices[0 if number == 1 else 1] for n, node in enumerate(graph)}, **ended.ended}
        check_unfinished(graph, ended, this.kept.to_the_end(took.__getitem__), said)
        skipped = skipped_in(notes, number)
        assert skipped.keys() == ended.are("skipped") & to_run
        assert all(reason in ended.reasons(node) for node, reason in skipped.items())
        if number > len(notes.judged):
            event("no verdict")
            if number == 1:
                break
            assert isinstance(said, WorkflowMessage)  # the best of the rounds before
            assert f"Round {number} failed: " in said.evaluation
            return
        assert notes.judged[number - 1] == [texts[tail] for tail in tails(graph) if tail in ended.ended]
        if number < 3:
            repaired = {*(blame[number - 1] or ended.ended)}
            if number == 2:
                twice = ended.ended.keys() & set(blame[0]) & set(blame[1])
                repaired |= {parent for node in twice for parent in graph[node].before} & ended.ended.keys()
            again = reachable(graph, repaired)
            unfinished = ended.are("may run") | ended.are("waits")
            to_run = with_unfinished(graph, again, unfinished)
            kept = Reference(graph, {n: ports for n, ports in sorted(ended.ended.items()) if n not in again})
            this = Round(number + 1, kept, repaired, ended.ended)
            event("one is blamed twice" if number == 2 and set(blame[0]) & set(blame[1]) else "none is blamed twice")
            event(f"in round {number + 1} " + ("all" if len(to_run) == len(graph) else "some") + " may run")
            event("a race goes on" if to_run - again else "a race is over" if unfinished - again else "no race")
    check_result(graph, ended, texts, None, said)


@examples(100, 300)
@given(graphs(9))
def test_a_later_round_runs_what_was_blamed_and_what_depends_on_it(graph: Graph) -> None:
    check_rounds(BuiltinWorkflow, graph)


@examples(50, 150)
@given(graphs(9))
def test_a_later_round_by_dbgpt_runs_what_was_blamed_and_what_depends_on_it(graph: Graph) -> None:
    check_rounds(DbgptWorkflow, graph)


# Checks when it is built


class OneOfTwo(Node):
    """Takes one of two ports, and says so."""

    ports = ("a", "b")
    takes_one_port = True


def never_runs(graph: Graph) -> set[int]:
    """What a check finds."""
    notes = Notes()
    workflow = BuiltinWorkflow()
    operators = [OneOfTwo(n, node, notes) for n, node in enumerate(graph)]
    for operator in operators:
        for parent, ports in operator.node.before.items():
            links = [Port(operators[parent], port) for port in ports] or [operators[parent]]
            workflow.add_operator(operator, links, join=operator.node.join)
        workflow.add_operator(operator, join=operator.node.join)
    issues = workflow.graph().check()
    assert {issue.code for issue in issues} <= {"never-runs"}
    return {int(issue.where) for issue in issues}


def runs_with(graph: Graph) -> Iterator[Collection[int]]:
    """What runs, for each choice that operators which take one of two ports may make."""
    for choices in product("ab", repeat=len(graph)):
        yield Reference(graph).to_the_end(lambda node, choices=choices: (choices[node],)).ended.keys()


def of_arms(graph: Graph, routers: int) -> Graph:
    """The graph with edges from one of two ports of its first nodes alone, and joins that wait for more."""
    return [
        replace(
            node,
            before={
                p: ports & {"a" if n % 2 else "b"} if p < routers else NO_PORTS for p, ports in node.before.items()
            },
            join="all" if node.pauses % 4 else node.join,
        )
        for n, node in enumerate(graph)
    ]


@examples(60, 150)
@given(graphs(8))
def test_a_join_that_a_check_objects_to_runs_for_no_choice_of_ports(graph: Graph) -> None:
    graph = of_arms(graph, routers=8)
    refused = never_runs(graph)
    event("refused" if refused else "accepted")
    assert not refused or not any(refused & set(ran) for ran in runs_with(graph))


@examples(60, 150)
@given(graphs(8))
def test_with_one_router_a_check_finds_every_join_that_runs_for_no_choice_of_ports(graph: Graph) -> None:
    graph = of_arms(graph, routers=1)
    possible = set[int]().union(*runs_with(graph))

    refused = never_runs(graph)

    event("refused" if refused else "accepted")
    assert refused == {n for n, node in enumerate(graph) if n not in possible and possible.issuperset(node.before)}
