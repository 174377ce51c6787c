"""`operad.flows.repair` as a whole: the guards, hostile input, and recorded responses."""

import importlib
import itertools
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from amounts import amount
from hypothesis import given, settings
from hypothesis import strategies as st

from operad.flows import repair as package
from operad.flows.formats.chat2workflow import issues_of, load
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.flows.repair import FORMAT, PAPER, Rules, Standing
from operad.flows.repair.state import Proposal, State, standing_of
from operad.operators.nodes import NODE_TYPES

repair: Any = package.repair
repair_graph: Any = package.repair_graph


def node(id, type, **param):
    return {"id": id, "type": type, "param": param}


def flow(*nodes, edges=None):
    ids = [each["id"] for each in nodes]
    edges = [[one, 0, two] for one, two in itertools.pairwise(ids)] if edges is None else edges
    return json.dumps({"nodes_info": list(nodes), "edges": edges})


def start(*variables):
    return node("1", "start", variables=[list(each) for each in variables])


def llm(user, id="2"):
    return node(id, "llm", system="", user=user)


def end(*outputs, id="9"):
    return node(id, "end", outputs=[[name, list(selector)] for name, selector in outputs])


# The guards


def test_a_repair_that_makes_something_worse_is_not_made():
    def harmful(state):
        yield Proposal("2", "is left out", "for fun", replace(state.graph, nodes=[]))

    def useless(state):
        yield Proposal("2", "is renamed", "for fun", replace(state.graph, name=state.graph.name + "!"))

    text = flow(start(("text", "string")), llm("{{#1.text#}}"), end(("x", ("text", "2"))))
    assert repair(text, Rules(graph={"harmful": harmful, "useless": useless})).repairs == []


def test_a_measure_of_a_goal_decides_between_workflows_without_issues():
    def shorter(state):
        yield Proposal("2", "is renamed", "the goal is a short name", replace(state.graph, name=state.graph.name[:-1]))

    graph = replace(load(flow(start(("text", "string")), end(("x", ("text", "1"))))), name="abc")
    assert repair_graph(graph, {"shorter": shorter}).repairs == []
    goal = repair_graph(
        graph,
        {"shorter": shorter},
        measure=lambda state: standing_of(state)._replace(mismatches=abs(len(state.graph.name) - 2)),
    )
    assert (goal.graph.name, [each.rule for each in goal.repairs]) == ("ab", ["shorter"])


@pytest.mark.parametrize(
    ("before", "after", "is_better"),
    [
        (Standing(1, 0, 0, 0), Standing(0, 0, 0, 0), True),
        (Standing(1, 0, 0, 0), Standing(0, 0, 1, 0), False),
        (Standing(0, 0, 1, 0), Standing(1, 0, 0, 0), False),
        (Standing(0, 1, 0, 0), Standing(0, 0, 3, 0), True),  # what could not be read before is seen now
        (Standing(0, 0, 1, 0), Standing(0, 1, 0, 0), False),
        (Standing(0, 0, 1, 0), Standing(0, 0, 0, 2), True),
        (Standing(0, 0, 1, 1), Standing(0, 0, 1, 1), False),
    ],
)
def test_what_counts_as_better(before, after, is_better):
    assert after.improves_on(before) is is_better


def test_the_repairs_of_the_paper_are_a_part_of_all():
    assert [list(table) for table in PAPER] == [["json"], [], ["order", "selection"]]
    assert all(paper.items() <= every.items() for paper, every in zip(PAPER, FORMAT, strict=True))


def test_nothing_but_the_response_is_read(monkeypatch):
    text = flow(start(("paper", "file")), llm("{{#1.paper#}}"), end(("summry", ("txt", "2")))).replace("}", "},", 1)
    repair(text)  # imports what it needs

    def refuse(*args, **kwargs):
        raise AssertionError(f"opened {args}")

    for name in ("builtins.open", "io.open", "os.open", "pathlib.Path.open", "socket.socket"):
        monkeypatch.setattr(name, refuse)
    assert repair(text).graph.by_id["9"].params == {"outputs": [["summry", ["text", "2"]]]}


# Hostile input


@pytest.mark.parametrize(
    "text",
    ["", " ", "null", "[]", "{}", "7", '"x"', "no workflow", "[" * 100_000, '{"nodes_info":' * 20_000, "{" * 3000 + "}" * 10,
     '{"nodes_info": 7, "edges": {}}', '{"nodes_info": [[[]]], "edges": [[]]}', "<workflow>", "<workflow></workflow>",
     b"\xff\xfe\x00", b"\x00" * 1000, "\ud800", '"' * 100_001, "/*" * 50_000, "```" * 10_000,
     '{"nodes_info": [{"id": "", "type": ""}], "edges": []}', '{"nodes_info": [{"id": "a-a-a", "type": "iteration", "param": []}], "edges": []}'],
)  # fmt: skip
def test_what_is_no_workflow_ends_in_issues(text):
    result = repair(text)
    assert result.issues
    assert result.graph is None or result.lessons


def test_a_huge_workflow_is_read_and_left_as_it_is():
    last = amount(1000, 3000)
    nodes = [
        start(("text", "string")),
        *(llm("{{#1.text#}}", str(n)) for n in range(2, last)),
        end(("x", ("txt", "2")), id=str(last)),
    ]
    result = repair(flow(*nodes))
    assert result.repairs == []
    assert result.issues


@pytest.mark.slow
def test_many_faults_end_in_bounded_work():
    nodes = [start(("text", "string")), *(llm(f"{{{{#{n}.tekst#}}}}", str(n + 1)) for n in range(1, 100))]
    repair(flow(*nodes, end(("x", ("zzz", "100")), id="101")))


odd = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.sampled_from(["", "1", "2", "2-1", "text", "llm", "{{#1.text#}}", "{{#item#}}", "end"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["id", "type", "param", "variables", "name"]), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
params = st.dictionaries(
    st.sampled_from(["variables", "outputs", "user", "system", "cases", "template", "code", "iterator_selector", "output_selector", "query"]), odd
)  # fmt: skip
odd_nodes = st.builds(
    lambda name, kind, param: {"id": name, "type": kind, "param": param},
    st.sampled_from(["1", "2", "2-1", "2-2", "3", "4-1"]),
    st.sampled_from([*NODE_TYPES, "Template", "?"]),
    params,
)
odd_edges = st.lists(st.sampled_from(["1", "2", "2-1", "2-2", "3", 0, 1, None]), min_size=1, max_size=4)


@pytest.mark.parametrize(
    "nodes",
    [
        [node("1", "start", variables=1), node("2", "start", variables=None), node("3", "start", variables={"a": 1})],
        [node("1", "iteration", output_selector=[["a"], ["b"]], iterator_selector=[[], {}]), llm("{{#1.x#}}")],
        [start(("text", "string")), node("2", "end", outputs=None), node("3", "end", outputs=[["x", {}], 3])],
        [node("1", "mermaid-converter", mermaid_code="x"), node("1", "template-transform", template=1, variables=2)],
        [node("1", "start", variables=[]), node("1", "parameter-extractor", query=1)],
        [start(("text", "string")), node("2", "template-transform", template="{{#1.text#}}", variables=[[["a"], [["b"], {}]]])],
    ],
)  # fmt: skip
def test_parameters_of_odd_shapes(nodes):
    result = repair(flow(*nodes))
    assert repair(result.text).text == result.text


def test_where_no_workflow_can_be_read_the_text_stays_the_same_the_second_time():
    text = (
        "<workflow>\n"
        + json.dumps({"nodes_info": [{"id": "1", "type": "llm"}, {"id": 1}, []], "edges": 3, "nodes_info ": 1})
        + "\n</workflow>"
    )
    for each in (text, text.replace('"llm"', "null"), text.replace('"1"', '""')):
        result = repair(each)
        assert repair(result.text).text == result.text


@settings(max_examples=amount(10, 100))
@given(st.lists(odd_nodes | odd, max_size=6), st.lists(odd_edges, max_size=6))
def test_whatever_is_given_it_ends_once_and_for_all(nodes, edges):
    result = repair(json.dumps({"nodes_info": nodes, "edges": edges}))
    again = repair(result.text)
    assert again.text == result.text
    assert again.repairs == [] or result.graph is None


# Recorded responses


def recorded(folder):
    for path in sorted([*folder.glob("may/*.json"), *folder.glob("apr/*.json")]):
        for each in json.loads(path.read_text(encoding="utf-8")):
            if each["workflow"]:
                tags = ("node_selection", "design_principle", "workflow")
                text = "\n".join(f"<{tag}>\n{each[tag]}\n</{tag}>" for tag in tags)
                yield each["valid"], text


def test_recorded_responses_never_stand_worse_and_are_mended_once(shared_data):
    every = list(recorded(shared_data / "chat2workflow"))
    for passes, text in every[:: amount(60, 12)]:
        result = repair(text)
        assert repair(result.text).text == result.text
        if passes:
            assert State(result.graph).standing <= State(load(text)).standing
            assert repair(text, PAPER).graph is not None
        if result.graph is not None and not result.issues:
            assert issues_of(load(result.text), NODE_TYPES) == []


def test_a_sound_recorded_response_stays_to_the_letter(shared_data):
    sound = 0
    for passes, text in list(recorded(shared_data / "chat2workflow"))[:120]:
        if passes and not issues_of(load(text), NODE_TYPES):
            sound += 1
            assert repair(text).text == text
    assert sound > 20


def test_what_stands_around_the_tags_comes_back():
    inner = flow(start(("text", "string")), llm("{{#1.text#}}"), end(("x", ("txt", "2"))))
    text = f"So:\n<node_selection>Start, LLM, End</node_selection>\n<workflow>```json\n{inner}\n```</workflow>\nDone.\n"
    mended = repair(text).text
    assert mended.startswith("So:\n<node_selection>Start, LLM, End</node_selection>\n<workflow>\n{")
    assert mended.endswith("}\n</workflow>\nDone.\n")
    assert re.search(r'"text",\s*"2"', mended)


def test_a_tag_inside_a_text_of_the_json_is_no_tag_around_it():
    text = flow(start(("text", "string")), llm("Answer in <workflow> tags: {{#1.texts#}}"), end(("x", ("text", "2"))))
    result = repair(text)
    assert result.graph.by_id["2"].params["user"] == "Answer in <workflow> tags: {{#1.text#}}"
    assert load(result.text) == result.graph


def test_the_graph_of_any_format_is_mended():
    graph = NodeGraph(
        [NodeSpec("a", "start", {"variables": [["q", "string"]]}), NodeSpec("b-c", "llm", {"system": "", "user": "{{#a.q#}}"}),
         NodeSpec("z", "end", {"outputs": [["x", ["answer", "b-c"]]]})],
        [Edge("a", "b-c"), Edge("b-c", "z")],
    )  # fmt: skip
    result = repair_graph(graph)
    assert [each.id for each in result.graph.nodes] == ["a", "b-c", "z"]
    assert not result.issues


def test_the_benchmark_fails_with_a_line_for_each_aim_that_is_missed(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[3] / "benchmark")
    bench = importlib.import_module("bench_repair")
    counts = {"responses": 10, "passed": 6, "sound": 5, "both": 4, "ended": 5}
    result = {"columns": {"format": {"all": counts}}, "broken": {"format": []}}
    assert list(bench.failures(result, {"format": {"passed": 0.6, "ended of the sound": 1.0}})) == []
    assert list(bench.failures({**result, "broken": {"format": ["a Task_1"]}}, {"format": {"passed": 0.61}})) == [
        "aim missed: passed, format: 60.00%, and at least 61.0% is the aim",
        "broken by the repair, format: a Task_1",
    ]
