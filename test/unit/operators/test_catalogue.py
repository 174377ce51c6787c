"""The catalogue of node types, and types of one's own."""

import inspect
import json
import textwrap

import pytest
from msgspec.structs import asdict
from pydantic import Field

from operad.flows.assemble import assemble
from operad.flows.catalogue import as_json, card, fields_for_generation, params_schema, table
from operad.flows.check import check
from operad.flows.formats.chat2workflow import parent_of
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.operators import node as node_module
from operad.operators.named_params import positional
from operad.operators.node import NodeOperator, NodeParams
from operad.operators.nodes import CHAT2WORKFLOW_TYPES, NODE_TYPES
from operad.operators.variables import Text, VariableType
from operad.runtime import Job, OperatorCall, StepRecord, WorkflowMessage
from operad.runtime.testing import ScriptedReasoner

TYPES = list(NODE_TYPES.values())
each_type = pytest.mark.parametrize("node_type", TYPES, ids=list(NODE_TYPES))


@each_type
def test_its_example_is_sound_by_itself(node_type):
    made = node_type({"conversation": "conversation", "loop": "7"}.get(node_type.type, "2"), node_type.example)
    assert made.check({}) == []
    assert (made.example != {}) == bool(fields_for_generation(node_type))


@each_type
def test_its_card_names_every_parameter_and_says_what_it_is(node_type):
    text = card(node_type, advanced=True)
    assert text.startswith(f"{node_type.type}: ")
    for name, field in node_type.params_type.model_fields.items():
        assert field.description
        assert f"    {name}: {field.description}" in text
    assert f"  outputs: {node_type.gives}" in text
    assert ("  ports: " in text) == bool(node_type.ports.fget(node_type("x", node_type.example)))  # type: ignore[attr-defined]
    if node_type.example:
        shown = json.loads(text.rpartition("  example: ")[2])
        assert positional(node_type.params_type, shown) == json.loads(json.dumps(node_type.example))


@each_type
def test_its_json_is_json_with_the_schema_of_its_parameters(node_type):
    said = as_json(node_type)
    assert json.loads(json.dumps(said)) == said
    assert said["type"] == node_type.type
    assert said["summary"]
    assert list(params_schema(node_type).get("properties", {})) == list(node_type.params_type.model_fields)  # type: ignore[arg-type]


@each_type
def test_the_outputs_that_it_declares_are_in_its_words(node_type):
    made = node_type("2", node_type.example)
    for name in made.outputs(lambda _: VariableType.ANY):
        own = name in json.dumps(node_type.example)
        assert own or name in node_type.gives


def test_types_have_their_names():
    assert all(name == node_type.type for name, node_type in NODE_TYPES.items())
    assert set(CHAT2WORKFLOW_TYPES) <= set(NODE_TYPES)


def test_all_types_in_a_table_and_in_words():
    lines = table(TYPES).splitlines()
    assert [line.split()[0] for line in lines] == list(NODE_TYPES)
    assert table([]) == ""


def test_a_parameter_that_may_be_left_out_is_said_with_what_it_is_then():
    assert "concurrency: How many items at once. (may be left out; then 10)" in card(NODE_TYPES["iteration"])


# A type of one's own


def run_with(node_type, text):
    nodes = [
        NodeSpec("1", "start", {"variables": [["x", "string"]]}),
        NodeSpec("2", node_type.type, {"text": "{{#1.x#}}"}, parent_of("2")),
        NodeSpec("3", "end", {"outputs": [["count", ["count", "2"]]]}),
    ]
    types = {**NODE_TYPES, node_type.type: node_type}
    graph = NodeGraph(nodes, [Edge("1", "2"), Edge("2", "3")])
    assert check(graph, types) == []
    return assemble(graph, types).execute(Job(goal="go", inputs={"x": text}), ScriptedReasoner([])).outputs


def test_the_example_of_the_module_runs():
    source = textwrap.dedent(inspect.getdoc(node_module).partition("subclass:")[2])  # type: ignore[union-attr]
    names = {
        "NodeParams": NodeParams,
        "NodeOperator": NodeOperator,
        "Text": Text,
        "Field": Field,
        "VariableType": VariableType,
    }
    exec(source, names)  # noqa: S102 - our own
    word_count = names["WordCount"]
    assert run_with(word_count, "figs and dates") == {"count": 3}
    assert card(word_count).splitlines() == [  # type: ignore[arg-type]
        "word-count: Counts the words of a text.",
        "  params:",
        "    text: The text to count the words of.",
        "  outputs: count (number)",
    ]


class CountParams(NodeParams):
    """A text."""

    text: Text = Field(description="The text.")


class Wrong(NodeOperator[CountParams]):
    """Says that it counts."""

    type = "wrong"
    params_type = CountParams
    gives = "count (number)"

    def outputs(self, type_of):
        return {"count": VariableType.NUMBER}

    async def compute(self, call):
        return {"count": call.text(self.params.text)}


def test_one_that_gives_something_else_than_it_declares_is_found_out():
    with pytest.raises(
        Exception, match=r"node '2' \(wrong\): output 'count' is declared as number, and is string: \"figs\""
    ):
        run_with(Wrong, "figs")


async def test_the_call_of_a_node_has_all_fields_of_the_call_of_its_operator():
    calls = []

    class Keeps(Wrong):
        async def compute(self, call):  # pyright: ignore[reportIncompatibleMethodOverride]
            calls.append(call)
            return {"count": 1}

    record = StepRecord(operator_id="a", instruction="", message=WorkflowMessage())
    call = OperatorCall(ScriptedReasoner([]), Job("figs"), lesson="more", transcript=(record,), judged=record.message)
    await Keeps("2", {"text": "figs"}).run(call)
    assert {name: getattr(calls[0], name) for name in OperatorCall.__struct_fields__} == asdict(call)


class Listing(Wrong):
    async def compute(self, call):  # pyright: ignore[reportIncompatibleMethodOverride]
        return [1]


class Hasty(Wrong):
    def compute(self, call):  # pyright: ignore[reportIncompatibleMethodOverride]
        return {"count": 1}


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (Listing, r"compute returned \[1\]; return a dict of the outputs, or a NodeResult"),
        (Hasty, "its compute cannot be awaited; write `async def compute`"),
    ],
)
def test_one_whose_run_is_of_another_shape_is_told_of_the_right_one(kind, said):
    with pytest.raises(Exception, match=rf"node '2' \(wrong\): {said}"):
        run_with(kind, "figs")
