"""The names by which those who drive runs and those who work for them find the same operators."""

import json

import pytest
from small_flows import flow

pytest.importorskip("sqlalchemy")

from operad.evaluators import Evaluator
from operad.flows.assemble import assemble
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.operators import Operator, OperatorConfig
from operad.operators.nodes import NODE_TYPES
from operad.operators.services import Services
from operad.runtime import (
    Budget,
    Expert,
    InputError,
    Job,
    Leader,
    Limits,
    Map,
    Policy,
    Profile,
    Retry,
    Timeout,
    WorkflowMessage,
)
from operad.runtime.durable import Served
from operad.runtime.events import current_scope
from operad.runtime.testing import ScriptedReasoner

JOB = Job(goal="goal", inputs={"list": ["x", "y"]})
ADA, BOB = ScriptedReasoner([]), ScriptedReasoner([])
QUIET = WorkflowMessage()


class Probe(Evaluator):
    """Notes where it runs."""

    def __init__(self, operator_id="a", instruction="Ask."):
        super().__init__(OperatorConfig(id=operator_id, instruction=instruction))
        self.scopes = []

    async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
        self.scopes.append(current_scope())
        return QUIET


def address_in(agents, scope):
    """Where the operator is that runs in a scope."""
    node = next(each for each in scope.run.build.nodes if each.operator.get_id() == scope.operator_id)
    return agents.address_of(scope, node)


def expert(workflow, name="Ada", reasoner=ADA):
    return Expert(Profile(name=name), workflow, reasoner)


def served(*workflows, name="agents"):
    return Served(name, [expert(workflow) for workflow in workflows])


# Addresses


def nodes(probe):
    """An iteration, a loop and a workflow by its name."""
    specs = [
        NodeSpec("1", "start", {"variables": [["list", "array[string]"]]}),
        NodeSpec("2", "iteration", {"iterator_selector": ["list", "1"], "output_selector": ["output", "2-2"]}),
        NodeSpec("2-1", "iteration-start", parent="2"),
        NodeSpec("2-2", "template-transform", {"variables": [["i", ["item", "2"]]], "template": "{{ i }}"}, parent="2"),
        NodeSpec("3", "loop", {"loop_count": 2, "variables": [["n", "number", 1]]}),
        NodeSpec("3-1", "loop-start", parent="3"),
        NodeSpec("3-2", "assigner", {"assignments": [[["n", "3"], "multiply", 3]]}, parent="3"),
        NodeSpec("4", "sub-workflow", {"workflow": "sub", "inputs": [["list", ["list", "1"]]], "outputs": []}),
        NodeSpec("5", "end", {"outputs": [["n", ["n", "3"]]]}),
    ]
    edges = [Edge("1", "2"), Edge("2", "3"), Edge("3", "4"), Edge("4", "5"), Edge("2-1", "2-2"), Edge("3-1", "3-2")]
    services = Services(workflows={"sub": flow(probe, name="sub")})
    return assemble(NodeGraph(specs, edges), NODE_TYPES, services=services)


SHAPES = {
    "one operator": (lambda a: flow(a), "Ada/a"),
    "a workflow in a workflow": (lambda a: flow(flow(flow(a, name="in"), name="mid")), "Ada/mid/in/a"),
    "the items of a map": (lambda a: flow(Map("each", flow(a, name="body"), over="list")), "Ada/each/a"),
    "the operator that a map applies": (lambda a: flow(Map("each", a, over="list")), "Ada/each/a"),
    "an evaluator": (lambda a: flow(Probe("x"), evaluators=[a]), "Ada/a"),
    "an evaluator in a map": (
        lambda a: flow(Map("each", flow(Probe("x"), evaluators=[a], name="body"), over="list")),
        "Ada/each/a",
    ),
    "a workflow that a node has": (nodes, "Ada/4/a"),
}


@pytest.mark.parametrize(("shape", "address"), SHAPES.values(), ids=SHAPES)
async def test_an_operator_is_found_where_it_runs(shape, address):
    probe = Probe()
    workflow = shape(probe)
    agents = served(workflow)
    await workflow.aexecute(JOB, ADA)
    (at,) = {address_in(agents, scope) for scope in probe.scopes}
    assert at is not None
    assert "/".join(at) == address
    found = agents.find(list(at))
    assert (found.node.operator, found.reasoner) == (probe, ADA)
    assert probe in [*found.build.graph.operators.values(), *found.build.graph.evaluators]


def test_nodes_inside_of_nodes_have_addresses_and_those_around_them_none():
    agents = served(nodes(Probe()))
    assert [agents.find(("Ada", *path)).node.operator.get_id() for path in ("1", ("2", "2-2"), ("3", "3-2"), "5")] == [
        "1",
        "2-2",
        "3-2",
        "5",
    ]
    for around in ("2", "3", "4"):
        with pytest.raises(InputError, match=f"agents: has no operator 'Ada/{around}'"):
            agents.find(("Ada", around))


async def test_the_experts_of_a_leader_have_addresses_and_the_leader_itself_none():
    probe = Probe()
    leader = Leader(Profile(name="Boss"), [expert(flow(probe), "Bob", BOB)], ADA)
    agents = Served("team", [leader])
    await leader.aexecute(JOB.model_copy(update={"assigned_expert_name": "Bob"}))
    assert address_in(agents, probe.scopes[0]) == ("Bob", "a")
    assert agents.find(("Bob", "a")).reasoner is BOB
    with pytest.raises(InputError, match="team: has no operator 'Boss/lead'; was the configuration changed"):
        agents.find(("Boss", "lead"))


async def test_an_operator_that_several_have_is_done_for_each_by_his_own_means():
    probe = Probe()
    body = flow(probe, name="body")
    shapes = {"Ada": flow(probe), "Bob": flow(probe), "Cid": flow(body), "Dan": flow(Map("m", body, over="list"))}
    agents = Served("team", [expert(shape, name, ScriptedReasoner([])) for name, shape in shapes.items()])
    for name, shape in shapes.items():
        probe.scopes.clear()
        await shape.aexecute(JOB, ADA)
        inside = {"Cid": ("body",), "Dan": ("m",)}.get(name, ())
        assert {address_in(agents, scope) for scope in probe.scopes} == {(name, *inside, "a")}


async def test_what_was_made_or_changed_since_is_nobodys():
    probe, late = Probe(), Probe("late")
    workflow = flow(probe)
    agents = served(workflow)
    workflow.add_operator(late, [probe])
    await workflow.aexecute(JOB, ADA)
    await flow(probe).aexecute(JOB, ADA)
    for each in (probe, late):
        assert {address_in(agents, scope) for scope in each.scopes} == {None}


@pytest.mark.parametrize("address", [(), ("Ada",), ("Bob", "a"), ("Ada", "a", "a"), ["Ada", "x" * 10_000]])
def test_an_address_that_is_none_is_an_error(address):
    with pytest.raises(
        InputError, match=r"agents: has no operator '.*'; was the configuration changed after the worker started"
    ):
        served(flow(Probe())).find(address)


# Queues


def asks(operator_id="a", instruction="Ask.", **config):
    return Operator(OperatorConfig(id=operator_id, instruction=instruction, **config))


def fills(template):
    return NODE_TYPES["template-transform"]("t", {"variables": [], "template": template})


def two(first="a", second="b"):
    return flow(asks(first), asks(second))


ANOTHER = {
    "an instruction": flow(asks(instruction="Beg."), asks("b")),
    "the order": two("b", "a"),
    "one more": flow(asks(), asks("b"), asks("c")),
    "one less": flow(asks()),
    "a judge": flow(asks(), asks("b"), evaluators=[Probe("j")]),
    "the form of an answer": flow(asks(output_schema="{x: string}"), asks("b")),
    "a class": flow(Probe(instruction="Ask."), asks("b")),
    "a workflow around one": flow(flow(asks(), name="in"), asks("b")),
}


@pytest.mark.parametrize("what", ANOTHER)
def test_the_queue_is_another_with_another(what):
    assert served(ANOTHER[what]).queue != served(two()).queue


def test_the_queue_is_another_with_other_parameters_of_a_node_and_inside():
    queues = [
        served(shape).queue
        for text in ("x", "y")
        for shape in (flow(fills(text)), flow(flow(fills(text), name="in")), flow(Map("m", fills(text), over="list")))
    ]
    assert len(set(queues)) == len(queues)


def test_the_queue_is_another_with_other_agents():
    ada, bob = expert(two()), expert(two(), "Bob")
    assert len({Served("x", agents).queue for agents in ([ada], [bob], [ada, bob])}) == 3


def test_the_queue_is_the_same_whatever_the_models_times_and_limits_are():
    policy = Policy(retry=Retry(), timeout=Timeout(run=1.0), fallback="nothing")
    other = flow(
        asks(), asks("b"), policy=policy, max_rounds=5, budget=Budget(calls=5), limits=Limits(requests_per_minute=1)
    )
    assert served(other).queue == served(two()).queue
    assert Served("agents", [expert(two(), reasoner=BOB)]).queue == served(two()).queue


def test_the_order_of_agents_does_not_matter():
    ada, bob = expert(two()), expert(flow(asks()), "Bob")
    assert Served("x", [ada, bob]).queue == Served("x", [bob, ada]).queue


@pytest.mark.parametrize(
    ("name", "shown"),
    [("three", "three"), ("my file/ä.yaml", "my-file-.yaml"), ("x" * 100, "x" * 60), ("a' OR 1;--\n\0", "a-OR-1-")],
)
def test_the_queue_says_whose_it_is_in_plain_letters(name, shown):
    queue = served(two(), name=name).queue
    assert queue.startswith(f"operad {shown}")
    assert json.loads(json.dumps(queue)) == queue
    assert queue.isascii()
    assert queue.isprintable()
