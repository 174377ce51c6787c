"""What the stages are told keeps to its budget, for all instructions of the benchmark upon recorded workflows."""

import importlib
import json
from pathlib import Path

import pytest
from amounts import amount, sample

from operad.flows.check import check
from operad.flows.formats.chat2workflow import load
from operad.flows.generation import prompts
from operad.flows.generation.designer import nearest
from operad.flows.generation.draft import variables_before
from operad.flows.generation.mending import nodes_in
from operad.flows.generation.nodes_shown import whole
from operad.flows.generation.offer import offer_for
from operad.flows.generation.plan import After, Given, Plan, PlannedNode
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.operators.nodes import CHAT2WORKFLOW_TYPES, NODE_TYPES
from operad.runtime.values.errors import InvalidError

TYPES = {name: NODE_TYPES[name] for name in CHAT2WORKFLOW_TYPES}
OFFER = offer_for()
NONE = NodeGraph()


def tokens(parts):
    return sum(len(part.text) for part in parts) / prompts.CHARACTERS_A_TOKEN


def plan_to(base, target):
    """The plan that writes every node of a workflow anew, upon another."""
    nodes = []
    for spec in target.nodes:
        was = base.by_id.get(spec.id)
        key = {"start": "variables", "code": "outputs"}.get(spec.type, "")
        nodes.append(
            PlannedNode(
                id=spec.id,
                type=spec.type,
                change="update" if was is not None and was.type == spec.type else "add",
                purpose="What it does with what it reads, said in one line as models do.",
                inside=spec.parent,
                predecessors=tuple(After(edge.source, edge.port) for edge in target.edges if edge.target == spec.id),
                declares=tuple(Given(*pair[:2]) for pair in spec.params.get(key) or ()),
            )
        )
    return Plan(tuple(nodes), tuple(each for each in base.by_id if each not in target.by_id))


def build_parts(base, target):
    plan = plan_to(base, target)
    motif = nearest([node.type for node in plan.nodes])
    example = prompts.Part("An example", whole(motif.graph, NODE_TYPES) if motif else "")
    return prompts.to_build(plan, base, OFFER, variables_before(plan, base, TYPES), example)


def mend_parts(graph):
    said = "found something that is said at some length, as what broke in the code of a node may be; " * 4
    findings = [f"[param] {spec.id}: user: {said}" for spec in graph.nodes[-prompts.MOST_FINDINGS :]]
    return prompts.to_mend(graph, findings, nodes_in(findings, graph), OFFER)


@pytest.fixture(scope="module")
def sound():
    """Reads recorded workflows without faults, by task and round."""

    def sound(folder):
        found = {}
        for path in sorted(folder.glob("chat2workflow/[am]*/*.json")):
            for response in json.loads(path.read_text(encoding="utf-8")):
                try:
                    graph = load(response["workflow"] or "")
                except InvalidError:
                    continue
                if not check(graph, NODE_TYPES):
                    found.setdefault((response["task"], response["round"]), []).append(graph)
        return found

    return sound


@pytest.mark.slow
def test_every_instruction_of_the_benchmark_keeps_the_budgets(shared_data, sound):
    recorded = sound(shared_data)
    tasks = json.loads((shared_data / "chat2workflow" / "dataset" / "query.json").read_text(encoding="utf-8"))
    instructions = 0
    for task in sample(tasks, 5):
        rounds = []
        while text := task.get(f"query{len(rounds) + 1}"):
            rounds.append(text)
            instructions += 1
            made = recorded.get((task["task"], len(rounds)), [])
            for base in recorded.get((task["task"], len(rounds) - 1), []) if rounds[1:] else [NONE]:
                parts = prompts.to_plan(base, rounds, OFFER)
                assert tokens(parts) <= prompts.PLAN_TOKENS
                assert "\n[… cut:" not in prompts.shown(parts), "all nodes have room"
                for target in made[:2]:
                    assert tokens(build_parts(base, target)) <= prompts.BUILD_TOKENS
            for graph in made:
                assert tokens(mend_parts(graph)) <= prompts.FIX_TOKENS
    assert instructions == amount(17, 79)


def large(count, text):
    nodes = [NodeSpec("1", "start", {"variables": [["topic", "string"]]})]
    nodes += [
        NodeSpec(str(n), "llm", {"system": "", "user": text + f" {{{{#{n - 1}.text#}}}}"}) for n in range(2, count)
    ]
    nodes += [NodeSpec(str(count), "end", {"outputs": [["text", ["text", str(count - 1)]]]})]
    return NodeGraph(nodes, [Edge(str(n), str(n + 1)) for n in range(1, count)])


def test_a_large_workflow_with_long_texts_keeps_the_budgets_and_all_its_ids():
    graph = large(60, "Say it at length. " * 1_000)
    parts = prompts.to_plan(graph, ["Make it shorter. " * 2_000, "Again."], OFFER)
    assert tokens(parts) <= prompts.PLAN_TOKENS
    assert "\n59 llm after 58" in prompts.shown(parts)
    assert "\n60 end" in prompts.shown(parts)
    mend = mend_parts(graph)
    assert tokens(mend) <= prompts.FIX_TOKENS
    assert "[… cut" in prompts.shown(mend)
    build = build_parts(NONE, graph)
    assert tokens(build) <= prompts.BUILD_TOKENS
    line = next(line for line in prompts.shown(build).splitlines() if line.startswith("60: 59.text, 58.text"))
    assert line.endswith("…, 4.text, 3.text, 2.text, 1.topic"), "the inputs are named"


def test_what_is_written_anew_is_shown_whole():
    graph = large(3, "Say it at length. " * 1_000)
    plan = Plan((PlannedNode("2", "llm", "update"),))
    shown = prompts.shown(prompts.to_build(plan, graph, OFFER, {}, prompts.Part("", "")))
    assert "Say it at length. " * 1_000 in shown


def test_of_many_nodes_concerned_long_texts_are_cut_and_short_ones_stay():
    graph = large(5, "word " * 1_000)
    told = prompts.concerned(graph, ["2", "5"], 1_200)
    assert len(told) <= 1_200
    assert '"outputs":[["text",["text","4"]]]' in told
    assert "more characters]" in told
    assert "word " * 1_000 in prompts.concerned(graph, ["2"])
    assert prompts.concerned(graph, ["9"], 10) == ""
    assert len(prompts.concerned(graph, ["2"], 0)) < 100


def test_nodes_concerned_are_shown_with_edges_in_the_notation_of_all_nodes_and_titles():
    nodes = [NodeSpec(id="1", type="start"), NodeSpec(id="2", type="if-else"), NodeSpec(id="3", type="end")]
    graph = NodeGraph(nodes=nodes, edges=[Edge(source="1", target="2"), Edge(source="2", target="3", port=1)])
    parts = {part.title: part.text for part in prompts.to_mend(graph, ["node 2"], ["2"], OFFER, titles={"2": "Long?"})}
    assert '"edges":["1 -> 2","2:1 -> 3"]' in parts["Nodes concerned"]
    assert '2 if-else "Long?" after 1: {' in parts["All nodes"]


def test_a_mend_is_told_which_nodes_it_may_change_and_how_the_types_that_a_finding_names_are_written():
    graph = NodeGraph(nodes=[NodeSpec(id="1", type="start"), NodeSpec(id="2", type="end")], edges=[Edge("1", "2")])
    parts = {
        part.title: part.text for part in prompts.to_mend(graph, ["put a tts after 1"], ["2"], OFFER, allowed={"2"})
    }
    assert parts["Nodes that you may change"] == "2, and nodes that you add"
    assert "\ntts: " in parts["Node types concerned"]
    [nodes_to_change] = [
        part.text
        for part in prompts.to_mend(graph, ["x"], [], OFFER, allowed=set())
        if part.title == "Nodes that you may change"
    ]
    assert nodes_to_change == "nodes that you add"
    assert "Nodes that you may change" not in {part.title for part in prompts.to_mend(graph, ["x"], ["2"], OFFER)}


def test_nodes_are_found_in_findings_by_place_in_quotes_by_word_and_by_variable():
    graph = NodeGraph([NodeSpec(node_id, "llm") for node_id in ("1", "2", "3", "3-1", "4", "5")])
    finding = "[judged] 3: at most 1 of 2.5 words; name {{#2.text#}} and 3-1.text in node 4. Not '5'"
    assert sorted(nodes_in([finding], graph)) == ["2", "3", "3-1", "4", "5"]


def test_sizes_tell_of_the_schema_which_no_budget_counts():
    parts = [prompts.Part("Rules", "x" * 9)]
    assert prompts.sizes(parts) == {"Rules": 3}
    assert prompts.sizes(parts, {"type": "object"}) == {"Rules": 3, "Form of the answer": 5}


SMALL = NodeGraph(
    [
        NodeSpec("1", "start", {"variables": [["text", "string"]]}),
        NodeSpec("2", "llm", {"system": "", "user": "Shorten: {{#1.text#}}"}),
        NodeSpec("3", "end", {"outputs": [["short", ["text", "2"]]]}),
    ],
    [Edge("1", "2"), Edge("2", "3")],
)


def change(*rounds, base=SMALL):
    return prompts.shown(prompts.to_draft(base, ["Shorten it.", *rounds], OFFER, prompts.Part("", "")) or ())


@pytest.mark.parametrize(
    ("request_", "signature"),
    [
        ("Only where the text has more than 100 words, else leave it.", "if-else(cases: ["),
        ("如果文字超过一百字才缩写。", "if-else(cases: ["),
        ("Let me approve it.", "human-input(question: text"),
        ("输出之前让我确认。", "human-input(question: text"),
        ("Do it for each chapter.", "iteration(iterator_selector: var"),
        ("Export it as a Word file.", "markdown-exporter(target_type: "),
        ("Take the first three lines.", "list-operator(variable: var"),
    ],
)
def test_types_that_the_words_of_a_change_suggest_are_described_whole(request_, signature):
    assert f"\n{signature}" in change(request_)


def test_other_types_of_a_change_have_outputs_and_ports_and_no_parameters():
    told = change("Make it friendlier.")
    assert "\nif-else; port i is case i, counted from 0; the one after the last is ELSE\n" in told
    assert "\ntts → files (array[file])\n" in told
    assert 'Omit `params` if its type stands under "Types in short"' in told
    assert "failure?" not in told
    assert "failure?" in change("Retry the model twice.")


def test_the_operators_of_conditions_are_told_where_conditions_are_suggested():
    assert "string: contains, not contains, start with" in change("If it is long, shorten it.")
    assert "string: contains, not contains, start with" not in change("Make it friendlier.")


def test_how_to_name_the_item_is_told_with_iterations_alone():
    assert "It reads the item as 3.item." in change("Do it for each chapter.")
    assert "It reads the item as 3.item." not in change("Make it friendlier.")


@pytest.mark.slow
def test_changes_take_a_third_of_the_tokens_of_a_plain_prompt(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[3] / "benchmark")
    bench = importlib.import_module("bench_generate_tokens")
    rows = [each for each in bench.results(review=False) if each["change"]]
    assert [each["calls"] for each in rows] == [1, 1, 1, 1]
    assert sum(each["tokens"] for each in rows) <= bench.CHANGE_AIM * sum(each["plain"] for each in rows)


def test_of_many_notes_the_latest_are_shown_with_their_numbers():
    told = prompts.numbered([f"note {number} " + "word " * 100 for number in range(50)])
    assert len(told) < prompts.LONGEST_NOTES + 100
    assert "\n50. note 49 word" in told
    assert "\n1. " not in told


def test_parameters_of_a_change_are_written_with_the_nodes_before_them_in_view():
    base = NodeGraph(
        [NodeSpec("1", "start"), NodeSpec("2", "llm", {"system": "", "user": "SHOWN"}), NodeSpec("3", "end")],
        [Edge("1", "2"), Edge("2", "3")],
    )
    plan = Plan(nodes=(PlannedNode("3", "end", "update"),))
    parts = {part.title: part.text for part in prompts.to_build(plan, base, OFFER, {}, prompts.Part("", ""))}
    assert "SHOWN" in parts["Nodes before them"]
