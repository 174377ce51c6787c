"""What of a workflow may change while a run of it is interrupted, and in which words it is said what changed."""

import json

import pytest
from small_flows import flow

from operad.evaluators import Evaluator
from operad.operators import Operator, OperatorConfig
from operad.operators.nodes import NODE_TYPES
from operad.runtime import Action, Budget, BuiltinWorkflow, InputError, Limits, Map, Policy, Port, Retry, Timeout, Tool
from operad.runtime.durable.description import changes, describe_workflow


class Plain:
    """An operator that says nothing about itself."""

    def __init__(self, operator_id):
        self._id = operator_id

    def get_id(self):
        return self._id

    async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
        return ""


class Other(Plain):
    """Another class."""


def asks(operator_id="a", **config):
    return Operator(OperatorConfig(id=operator_id, **{"instruction": "Ask.", **config}))


def judge(operator_id="judge", instruction="Judge."):
    return Evaluator(OperatorConfig(id=operator_id, instruction=instruction))


def node(kind, node_id, body=None, **params):
    return NODE_TYPES[kind](node_id, params, body=body)


def joined(join=None, ports=("yes",)):
    workflow, a, b = BuiltinWorkflow(), Plain("a"), Plain("b")
    workflow.add_operator(a)
    workflow.add_operator(b, [Port(a, port) for port in ports] or [a], join=join)
    return workflow


def said(before, now):
    """What changed, after the description of the one was kept as JSON."""
    return changes(json.loads(json.dumps(describe_workflow(before))), describe_workflow(now))


def look(word: str) -> str:
    """Look a word up."""
    return word


def peek(word: str) -> str:
    """Look a word up."""
    return word


SAME = {
    "nothing": (flow(asks(), asks("b"), evaluators=[judge()]), flow(asks(), asks("b"), evaluators=[judge()])),
    "how often": (flow(asks()), flow(asks(), max_rounds=5)),
    "how long and how much": (
        flow(asks()),
        flow(
            asks(),
            policy=Policy(retry=Retry(), timeout=Timeout(run=1.0)),
            budget=Budget(calls=5),
            limits=Limits(concurrency=1),
        ),
    ),
    "its name": (flow(asks()), flow(asks(), name="other")),
    "the order of those who judge": (
        flow(Plain("a"), evaluators=[judge("x"), judge("y")]),
        flow(Plain("a"), evaluators=[judge("y"), judge("x")]),
    ),
    "code of the same class": (flow(Plain("a")), flow(Plain("a"))),
    "the same, inside": (flow(flow(asks(), name="in"), Plain("b")), flow(flow(asks(), name="in"), Plain("b"))),
    "how many items at once": (
        flow(Map("m", asks(), over="x", concurrency=1)),
        flow(Map("m", asks(), over="x", concurrency=9)),
    ),
    "how many passes": (
        flow(node("loop", "2", flow(Plain("i"), name="2"), loop_count=3)),
        flow(node("loop", "2", flow(Plain("i"), name="2"), loop_count=9)),
    ),
}


@pytest.mark.parametrize("case", SAME)
def test_it_is_the_same_workflow_though_it_differs_in(case):
    assert said(*SAME[case]) == {}


CHANGED = {
    "an instruction": (
        flow(asks(instruction="Ask."), asks("b")),
        flow(asks(instruction="Beg."), asks("b")),
        {"a": ["has another instruction"]},
    ),
    "several things": (
        flow(asks()),
        flow(asks(instruction="Beg.", output_schema="{x: string}")),
        {"a": ["has another instruction", "has another output_schema"]},
    ),
    "a tool": (
        flow(asks(actions=[Action(name="look", tools=(Tool.of(look),), id="look")])),
        flow(asks(actions=[Action(name="look", tools=(Tool.of(peek),), id="look")])),
        {"a": ["has another actions"]},
    ),
    "a class": (flow(Plain("a")), flow(Other("a")), {"a": ["has another class"]}),
    "a class with a configuration": (
        flow(Plain("a")),
        flow(asks()),
        {"a": ["has another config", "has another class"]},
    ),
    "an operator more": (flow(Plain("a")), flow(Plain("a"), Plain("b")), {"b": ["is new"]}),
    "an operator less": (flow(Plain("a"), Plain("b")), flow(Plain("a")), {"b": ["is gone"]}),
    "the order": (
        flow(Plain("a"), Plain("b")),
        flow(Plain("b"), Plain("a")),
        {"a": ["comes after b, and came after nothing"], "b": ["comes after nothing, and came after a"]},
    ),
    "a port": (
        joined(),
        joined(ports=("no", "maybe")),
        {"b": ["comes after a by port maybe or no, and came after a by port yes"]},
    ),
    "an edge that is taken always": (
        joined(),
        joined(ports=()),
        {"b": ["comes after a, and came after a by port yes"]},
    ),
    "a join": (joined(), joined("any"), {"b": ["joins by 'any', and joined by 'all_done'"]}),
    "who judges": (
        flow(Plain("a"), evaluators=[judge("x")]),
        flow(Plain("a"), evaluators=[judge("y")]),
        {"x": ["is gone"], "y": ["is new"]},
    ),
    "how it is judged": (
        flow(Plain("a"), evaluators=[judge()]),
        flow(Plain("a"), evaluators=[judge(instruction="Be mild.")]),
        {"judge": ["has another instruction"]},
    ),
    "deep inside": (
        flow(flow(flow(asks(), name="in"), name="mid")),
        flow(flow(flow(asks(instruction="Beg."), Plain("b"), name="in"), name="mid")),
        {"mid/in/a": ["has another instruction"], "mid/in/b": ["is new"]},
    ),
    "a workflow in the place of an operator": (
        flow(Plain("x")),
        flow(flow(Plain("a"), name="x")),
        {"x": ["has another class"], "x/a": ["is new"]},
    ),
    "what a map is over": (
        flow(Map("m", Plain("i"), over="x")),
        flow(Map("m", Plain("i"), over="y", on_error="skip")),
        {"m": ["has another on_error", "has another over"]},
    ),
    "what a map does": (
        flow(Map("m", asks())),
        flow(Map("m", asks(instruction="Beg."))),
        {"m/a": ["has another instruction"]},
    ),
    "a node's parameters": (
        flow(node("template-transform", "1", template="a", variables=[])),
        flow(node("template-transform", "1", template="b", variables=[])),
        {"1": ["has another params.template"]},
    ),
    "parameters of a node that runs others": (
        flow(
            node("iteration", "2", flow(Plain("i"), name="2"), iterator_selector=["x", "1"], output_selector=["o", "i"])
        ),
        flow(
            node("iteration", "2", flow(Plain("i"), name="2"), iterator_selector=["y", "1"], output_selector=["o", "i"])
        ),
        {"2": ["has another iterator_selector"]},
    ),
}


@pytest.mark.parametrize("case", CHANGED)
def test_it_is_said_what_changed_and_where(case):
    before, now, words = CHANGED[case]
    assert said(before, now) == words


def test_an_operator_whose_tools_bind_what_nobody_knows_is_known_by_its_class_and_id():
    class Odd(Operator):
        def fingerprint(self):
            raise InputError("it binds a socket")

    one, other = (flow(Odd(OperatorConfig(instruction=text, id="a"))) for text in ("A.", "B."))
    assert said(one, other) == {}
    assert said(one, flow(asks()))
