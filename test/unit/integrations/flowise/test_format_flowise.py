"""Flowise's files are edited in their text, written from other workflows, and refused or read when they are broken."""

import copy
import json
import random
from dataclasses import replace
from difflib import ndiff
from itertools import pairwise
from pathlib import Path

import pytest
from amounts import amount

from operad.flows.assemble import assemble
from operad.flows.check import check
from operad.flows.formats.remarks import remarks_of
from operad.flows.formats.table import FORMATS
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.flows.secrets import file_secrets
from operad.integrations.flowise import format as flowise
from operad.operators.nodes import NODE_TYPES
from operad.runtime.testing import ScriptedReasoner
from operad.runtime.values.errors import InvalidError, OperadError

DATA = Path(__file__).parents[2] / "data" / "flowise_cases"
FILES = {file.stem: file.read_bytes() for file in sorted(DATA.glob("*.json")) if file.stem != "outcomes"}


def changed(graph, node_id, **params):
    return replace(
        graph,
        nodes=[replace(n, params={**n.params, **params}) if n.id == node_id else n for n in graph.nodes],
    )


def lines_changed(name, graph):
    """The lines of a file that are different after a change of its workflow."""
    exported = json.dumps(json.loads(FILES[name]), indent=2, ensure_ascii=False)  # as Flowise writes it
    text = flowise.FLOWISE.dump_keeping_text(graph, exported.encode()).decode()
    both = ndiff(exported.splitlines(), text.splitlines())
    return [line[0] + line[1:].strip() for line in both if line[0] in "+-"]


def test_an_edit_of_a_prompt_changes_one_line():
    graph = changed(flowise.load(FILES["llm"]), "llmAgentflow_0", system="You are {{#startAgentflow_0.sys.query#}}.")
    assert lines_changed("llm", graph) == ['-"content": "<p>You are brief.</p>"', '+"content": "You are {{question}}."']
    assert [issue for issue in flowise.losses(graph) if issue.code == "loss"] == []


def test_an_edit_of_a_condition_and_of_a_count_changes_their_lines():
    graph = flowise.load(FILES["loop"])
    cases = [[None, [[["text", "llmAgentflow_0"], "contains", "elm"]]]]
    graph = changed(changed(graph, "conditionAgentflow_0", cases=cases), "loopAgentflow_0", loop_count=4)
    assert lines_changed("loop", graph) == [
        '-"value2": "fig"',
        '+"value2": "elm"',
        '-"maxLoopCount": 3,',
        '+"maxLoopCount": 4,',
    ]


def test_an_edit_of_the_state_changes_the_update_of_its_node():
    graph = changed(
        flowise.load(FILES["update-state"]),
        "llmAgentflow_0_state",
        assignments=[[["said", "conversation"], "set", "Asked: {{#startAgentflow_0.sys.query#}}"]],
    )
    root = json.loads(flowise.dump(graph))
    assert root["nodes"][1]["data"]["inputs"]["llmUpdateState"] == [{"key": "said", "value": "Asked: {{question}}"}]


def test_a_node_that_is_put_in_between_and_one_that_is_removed_change_nothing_else():
    graph = flowise.load(FILES["structured"])
    new = NodeSpec("polish", "llm", {"system": "", "user": "Polish {{#llmAgentflow_0.structured_output.plant#}}"})
    kept = [edge for edge in graph.edges if edge.target != "directReplyAgentflow_0"]
    last = next(edge.source for edge in graph.edges if edge.target == "directReplyAgentflow_0")
    edges = [*kept, Edge(last, "polish"), Edge("polish", "directReplyAgentflow_0")]
    root = json.loads(flowise.dump(replace(graph, nodes=[*graph.nodes, new], edges=edges)))
    assert root["nodes"][:-1] == json.loads(FILES["structured"])["nodes"]
    assert root["nodes"][-1]["data"]["inputs"]["llmMessages"] == [
        {"role": "user", "content": "Polish {{llmAgentflow_0.output.plant}}"}
    ]
    assert [(e["source"], e["target"]) for e in root["edges"]] == [
        ("startAgentflow_0", "llmAgentflow_0"),
        ("llmAgentflow_0", "polish"),
        ("polish", "directReplyAgentflow_0"),
    ]
    nodes = [node for node in graph.nodes if node.id != "directReplyAgentflow_0"]
    removed = json.loads(flowise.dump(replace(graph, nodes=nodes, edges=kept)))
    assert [node["id"] for node in removed["nodes"]] == ["startAgentflow_0", "llmAgentflow_0"]
    assert [edge["target"] for edge in removed["edges"]] == ["llmAgentflow_0"]


def test_a_change_that_flowise_has_no_field_for_is_a_loss():
    graph = changed(flowise.load(FILES["llm"]), "llmAgentflow_0", separate_thoughts=True)
    [issue] = [issue for issue in flowise.losses(graph) if issue.code == "loss"]
    assert (issue.where, "separate_thoughts" in issue.message) == ("llmAgentflow_0", True)


GRAPH = NodeGraph(
    [
        NodeSpec("1", "start", {"variables": [["name", "string"], ["n", "number"]]}),
        NodeSpec("2", "if-else", {"cases": [[None, [[["n", "1"], ">", "3"]]]]}),
        NodeSpec("3", "llm", {"system": "Be brief.", "user": "Greet {{#1.name#}}."}),
        NodeSpec("4", "end", {"outputs": [["text", ["text", "3"]]]}),
        NodeSpec("5", "answer", {"answer": "No: {{#1.name#}}"}),
    ],
    [Edge("1", "2"), Edge("2", "3"), Edge("2", "5", 1), Edge("3", "4")],
    "greet",
)


@pytest.mark.parametrize(("number", "answer"), [(4, "Hello"), (3, "No: Ada")])
def test_a_workflow_of_ours_is_written_and_gives_the_same(number, answer):
    assert flowise.losses(GRAPH) == []
    graph = flowise.load(flowise.dump(GRAPH), "greet")
    ran = assemble(graph, NODE_TYPES).run(
        {"name": "Ada", "n": number}, ScriptedReasoner(["Hello"] if number > 3 else [])
    )
    assert ran.message.outputs == {"answer": answer}


def test_what_flowise_lacks_is_a_loss_with_its_node():
    case = ["and", [[["n", "1"], ">", "3"], [["n", "1"], "<", "9"]]]
    nodes = [*GRAPH.nodes[:1], replace(GRAPH.nodes[1], params={"cases": [case]}), NodeSpec("3", "tts", {"text": "x"})]
    found = flowise.losses(NodeGraph(nodes, GRAPH.edges[:2]))
    assert [(issue.where, issue.code) for issue in found] == [("2", "loss"), ("3", "loss")]


def test_the_meaning_stays_in_operads_yaml():
    ours = FORMATS["operad"]
    graph = ours.load(ours.dump(flowise.load(FILES["condition-markdown"])))
    ran = assemble(graph, NODE_TYPES).run({"sys.query": "**yes**"}, ScriptedReasoner([]))
    assert ran.message.outputs == {"answer": "first"}
    assert json.loads(flowise.dump(graph)) == json.loads(FILES["condition-markdown"])


def test_a_key_in_a_request_is_a_secret_and_in_no_other_file():
    graph = flowise.load(FILES["http-key"])
    assert list(file_secrets(graph).values()) == ["s3cr3t-value-1234"]
    assert "s3cr3t" not in str([node.params for node in graph.nodes])
    assert b"s3cr3t" not in FORMATS["operad"].dump(graph)
    assert b"s3cr3t-value-1234" in flowise.dump(changed(graph, "httpAgentflow_0", url="https://example.org/"))


@pytest.mark.parametrize("name", ["loop-into-the-middle", "loop-beside"])
def test_a_loop_without_a_counterpart_is_refused_with_its_node_and_the_remedy(name):
    with pytest.raises(InvalidError) as caught:
        flowise.load(FILES[name])
    [issue] = caught.value.issues
    assert (issue.code, issue.where) == ("loop", "loopAgentflow_0")


def test_two_starts_are_one_issue_that_names_both():
    root = json.loads(FILES["reply"])
    start = root["nodes"][0]
    root["nodes"].append({**start, "id": "again", "data": {**start["data"], "id": "again"}})
    with pytest.raises(InvalidError) as caught:
        flowise.load(json.dumps(root))
    [issue] = caught.value.issues
    assert (issue.code, issue.where, "startAgentflow_0" in issue.message) == ("several-starts", "again", True)


VALUES = [
    "x",
    "1000",
    7,
    -1,
    None,
    [],
    ["a", "b"],
    {},
    {"a": [1]},
    True,
    "{{a.output.b}}",
    "\ud800",
    "{{#1.x#}}",
    "<p>",
]


def places(value, path=()):
    """The paths of all values in a file, without those that only its page reads."""
    listed = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in listed:
        if key not in ("inputParams", "outputAnchors", "position", "positionAbsolute"):
            yield (*path, key)
            yield from places(each, (*path, key))


@pytest.mark.parametrize("seed", range(amount(3, 30)))
def test_a_file_with_any_value_replaced_gives_issues_or_a_workflow_that_is_written(seed):
    chance = random.Random(seed)  # noqa: S311
    for name in chance.sample(sorted(FILES), 12):
        root = copy.deepcopy(json.loads(FILES[name]))
        *path, last = chance.choice(list(places(root)))
        holder = root
        for key in path:
            holder = holder[key]
        holder[last] = chance.choice(VALUES)
        try:
            graph = flowise.load(json.dumps(root).encode())
        except OperadError as error:
            assert isinstance(error, InvalidError)  # noqa: PT017
            continue
        check(graph, NODE_TYPES)
        list(remarks_of(graph))
        flowise.losses(graph)
        assert flowise.dump(graph)


def test_an_update_of_the_state_takes_a_part_of_what_a_function_returns():
    def node(kind, **inputs):
        return {"id": f"{kind}_0", "data": {"id": f"{kind}_0", "name": kind, "label": kind, "inputs": inputs}}

    kinds = ["startAgentflow", "customFunctionAgentflow", "directReplyAgentflow"]
    nodes = [
        node(kinds[0], startInputType="chatInput", startState=[{"key": "count", "value": "1"}]),
        node(
            kinds[1],
            customFunctionJavascriptFunction="return { count: 7 };",
            customFunctionUpdateState=[{"key": "count", "value": "{{ output.count }}"}],
        ),
        node(kinds[2], directReplyMessage="{{$flow.state.count}}"),
    ]
    edges = [
        {"source": f"{a}_0", "target": f"{b}_0", "sourceHandle": f"{a}_0-output-{a}", "targetHandle": f"{b}_0"}
        for a, b in pairwise(kinds)
    ]
    graph = flowise.load(json.dumps({"nodes": nodes, "edges": edges}))
    result = assemble(graph, NODE_TYPES).run({"sys.query": "x"}, ScriptedReasoner([]))
    assert result.message.outputs == {"answer": "7"}
    assert json.loads(flowise.dump(graph)) == {"nodes": nodes, "edges": edges}
