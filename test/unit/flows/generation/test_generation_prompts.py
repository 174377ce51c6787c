"""What the stages are told keeps to its budget, for all instructions of the benchmark upon recorded workflows."""

import importlib
import json
from dataclasses import replace
from pathlib import Path

import pytest
from amounts import sample

from operad.flows.check import check
from operad.flows.formats.chat2workflow import load
from operad.flows.generation import prompts
from operad.flows.generation.cut_texts import marked, still_cut, with_whole_texts
from operad.flows.generation.draft import drafted_graph
from operad.flows.generation.drafting import params_of
from operad.flows.generation.mending import nodes_in
from operad.flows.generation.offer import OfferedTool, offer_for
from operad.flows.generation.plan import normal_plan, read_plan
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.operators.nodes import CHAT2WORKFLOW_TYPES, NODE_TYPES
from operad.runtime.values.errors import InvalidError

TYPES = {name: NODE_TYPES[name] for name in CHAT2WORKFLOW_TYPES}
OFFER = offer_for()


def tokens(parts):
    return sum(len(part.text) for part in parts) / prompts.CHARACTERS_A_TOKEN


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
def test_every_workflow_of_the_benchmark_keeps_the_budget_of_mending(sound, shared_data):
    graphs = [graph for made in sound(shared_data).values() for graph in made]
    for graph in sample(graphs, 5):
        assert tokens(mend_parts(graph)) <= prompts.FIX_TOKENS


def large(count, text):
    nodes = [NodeSpec("1", "start", {"variables": [["topic", "string"]]})]
    nodes += [
        NodeSpec(str(n), "llm", {"system": "", "user": text + f" {{{{#{n - 1}.text#}}}}"}) for n in range(2, count)
    ]
    nodes += [NodeSpec(str(count), "end", {"outputs": [["text", ["text", str(count - 1)]]]})]
    return NodeGraph(nodes, [Edge(str(n), str(n + 1)) for n in range(1, count)])


@pytest.mark.slow
def test_a_large_workflow_with_long_texts_keeps_the_budget_and_all_its_ids():
    mend = mend_parts(large(60, "Say it at length. " * 1_000))
    assert tokens(mend) <= prompts.FIX_TOKENS
    assert "[… cut" in prompts.shown(mend)
    assert [f"\n{number} llm after {number - 1} " in prompts.shown(mend) for number in range(2, 60)] == [True] * 58


def test_nodes_that_findings_name_are_shown_whole_and_others_cut():
    graph = large(30, "Say it at length. " * 20)
    told = prompts.shown(prompts.to_mend(graph, ["[param] 7: user: is wrong"], ["7"], OFFER, titles={"7": "Long?"}))
    assert '\n7 llm "Long?" after 6 → text: ' in told
    assert told.count("Say it at length. " * 20) == 1
    assert "[… cut" in told


def test_the_example_of_a_draft_is_cut_to_the_budget():
    example = prompts.Part("An example, made for other words", "word " * 9_000, data=True)
    parts = prompts.to_draft(["Shorten it."], OFFER, example)
    assert tokens(parts) <= prompts.DRAFT_TOKENS
    assert parts[-1].title == example.title


def test_a_mend_is_told_which_nodes_it_may_change_and_how_the_types_that_a_finding_names_are_written():
    graph = NodeGraph(nodes=[NodeSpec(id="1", type="start"), NodeSpec(id="2", type="end")], edges=[Edge("1", "2")])
    parts = {
        part.title: part.text for part in prompts.to_mend(graph, ["put a tts after 1"], ["2"], OFFER, allowed={"2"})
    }
    assert parts["Nodes that you may change"] == "2, and nodes that you add"
    assert "\ntts(text: text) → files" in parts["Node types concerned"]
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


def change(*look, base=SMALL, offer=OFFER, request="Make it friendlier."):
    return prompts.shown(prompts.to_change(base, ["Shorten it.", request], offer, look=look))


def test_a_change_is_told_the_names_of_types_and_of_short_ones_the_parameters():
    told = change()
    assert "\ntts(text), text2image(prompt), " in told
    assert "human-input(question, actions?: [{id, title}], inputs?: [text])" in told
    assert "if-else(cases: [{logic: and|or, conditions: [{variable, operator: is|contains|empty|≥…, value?}]}])" in told
    assert "iteration(iterator_selector, output_selector; inside: item) → output" in told
    assert "ports are its classes, actions, or cases and then ELSE, from 0" in told
    assert "\nlist-operator, echarts, request, loop, assigner, " in told
    assert "string: contains, not contains, start with" not in told
    assert "samples" not in told


def test_a_change_is_told_of_types_in_the_workflow_only_what_the_workflow_does_not_show():
    types = ["llm", "if-else", "iteration"]
    used = prompts.names_of(OFFER.types, types)
    assert "llm, document-extractor(variable_selector) → text" in used
    assert "if-else(" not in used
    assert "iteration(on_error?: fail|skip|keep) → output" in used
    assert "llm(system, user)" in prompts.names_of(OFFER.types)


def test_a_change_is_told_only_the_rules_that_apply():
    assert "`neither`" not in change()
    assert "`neither`" in change(request="Output it (variable short).")
    assert "ids of cut nodes" not in change()
    assert "ids of cut nodes" in change(base=large(25, "Say it at length. " * 10))
    alone = prompts.shown(prompts.to_change(SMALL, ["Make it friendlier."], OFFER))
    assert '"requests"' in change()
    assert '"requests"' not in alone


def test_a_change_shows_named_values_in_short_as_they_are_read():
    params = {"variables": [["text", "string"], ["name", "string"]]}
    both = {"outputs": [["name", ["a", "2"]], ["value", ["b", "2"]]]}
    graph = NodeGraph([NodeSpec("1", "start", params), NodeSpec("3", "end", both)])
    told = change(base=graph)
    assert '\n1 start: variables={"text":"string","name":"string"}\n' in told
    assert '\n3 end: outputs=[{"name":"name","value":"2.a"},{"name":"value","value":"2.b"}]\n' in told
    assert params_of(NODE_TYPES["start"], {"variables": {"text": "string", "name": "string"}}) == params


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        ("if-else", "string: contains, not contains, start with"),
        ("loop", "\nloop(loop_count: number, variables?: [{name, type, value?: text}]"),
        ("loop", "a variable of the loop as 3.name"),
        ("iteration", "It reads 3.item"),
        ("request", "`samples` {id: answer}"),
        ("failure", "\nfailure?, a parameter of every type: Retries"),
        ("requests", "- Shorten it."),
    ],
)
def test_a_change_is_shown_what_it_asks_for_with_the_rules_for_it(asked, shown):
    base = SMALL if asked != "failure" else NodeGraph([*SMALL.nodes, NodeSpec("4", "tts")])
    looked = ("tts", asked) if asked == "failure" else (asked,)
    assert shown in change(*looked, base=base)
    assert shown not in change(base=base)


def test_a_change_is_shown_the_services_with_the_types_that_name_them():
    offer = offer_for(tools={"post_to_slack": OfferedTool("Post it.", {"text": "string"})}, knowledge=["handbook"])
    told = change(offer=offer)
    assert ", tool, agent, knowledge-retrieval, failure {retries, " in told
    assert "post_to_slack" not in told
    assert '- post_to_slack {"text": "string"}: Post it.' in change("tool", offer=offer)


def test_the_beginning_of_the_prompt_of_a_change_is_the_same_for_workflows_of_the_same_types():
    def beginning(graph, *rounds, look=()):
        parts = prompts.to_change(graph, rounds, OFFER, look=look)
        return [part.text for part in parts if part.title == "Rules" or part.fixed]

    other = large(40, "Say it at length. " * 100)
    assert beginning(SMALL, "Shorten it.") == beginning(other, "a", "b", look=["3"])


def test_a_change_that_looked_at_types_is_not_told_of_the_others():
    assert "\ntts(text), " in change()
    assert "\ntts(text), " in change("3")
    assert "\ntts(text), " not in change("loop")


def test_long_texts_of_a_large_workflow_are_cut_in_a_change_until_the_model_looks_at_them():
    graph = large(25, "Say it at length. " * 10)
    told = change(base=graph, request="Nothing else.")
    assert "\n24 llm after 23: user=" in told
    assert "\n25 end after 24: outputs={" in told
    assert [f"[… cut: {{{{#{n}.text#}}}}]" in told for n in range(1, 24)] == [True] * 23  # the readers are seen
    assert change("7", "8", base=graph, request="Nothing else.").count("[… cut: {") == 21
    assert prompts.KEEP_CUT in told
    assert "[… cut" not in change(base=SMALL)


def test_the_texts_that_are_nearest_to_the_request_of_a_change_are_cut_last():
    graph = large(25, "Say it at length. " * 10)
    own = {"user": "Sum the invoice up. {{#1.text#}} " + "Be exact. " * 10}
    graph = replace(graph, nodes=[replace(spec, params=own) if spec.id == "9" else spec for spec in graph.nodes])
    assert own["user"] in change(base=graph, request="Give the sum of each invoice in euros.")
    assert own["user"] not in change(base=graph, request="Rename a file.")


def test_a_first_draft_is_told_the_attributes_of_files_and_how_nodes_run_inside_others():
    told = prompts.shown(prompts.to_draft(["Shorten it."], OFFER, prompts.Part("", "")))
    assert "1.doc.name, size, extension, mime_type and url" in told
    assert "A node inside an iteration or loop has its id in `inside`" in told
    assert "`unapproved` {id: why}" in told
    plain = prompts.shown(prompts.to_draft(["Shorten it."], offer_for("coze"), prompts.Part("", "")))
    assert "`unapproved`" not in plain
    assert "loop(" not in plain


@pytest.mark.slow
def test_drafts_and_changes_keep_their_aims_in_tokens(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[3] / "benchmark")
    bench = importlib.import_module("bench_generate_tokens")
    rows = bench.results(review=False)
    assert all(each["accepted"] for each in rows)
    assert bench.missed(rows) == []


def test_of_many_notes_the_latest_are_shown_with_their_numbers():
    told = prompts.numbered([f"note {number} " + "word " * 100 for number in range(50)])
    assert len(told) < prompts.LONGEST_NOTES + 100
    assert "\n50. note 49 word" in told
    assert "\n1. " not in told


# Texts that prompts show cut: answers that repeat them keep them whole, and no mark of a cut reaches a workflow


BILLING = "Billing: invoices, payments and refunds of customers"
LONG = "Answer the question of the customer in a friendly tone: {{#1.question#}}. Sign with the name of the shop."
BASE = NodeGraph(
    [
        NodeSpec("1", "start", {"variables": [["question", "string"], ["style", "string"]], "defaults": {"style": "short"}}),
        NodeSpec("2", "question-classifier", {"input": ["question", "1"], "classes": [BILLING, "Other"]}),
        NodeSpec("3", "llm", {"system": "", "user": LONG}),
    ],
    [Edge("1", "2"), Edge("2", "3")],
)  # fmt: skip


def planned(*nodes):
    return normal_plan({"nodes": list(nodes)}, BASE, NODE_TYPES)


def made(plan):
    return {spec.id: spec.params for spec in drafted_graph(read_plan(plan), BASE, NODE_TYPES).nodes}


def test_a_cut_text_names_the_variables_that_its_rest_reads():
    assert marked(LONG, 30) == "Answer the question of the cus[… cut: {{#1.question#}}]"
    assert marked(LONG, 80) == f"{LONG[:80]}[… cut]"
    assert marked(BILLING, len(BILLING) - 3) == BILLING


def test_a_cut_text_in_an_answer_is_the_whole_one():
    plan = planned({"id": "2", "params": {"classes": [f"{BILLING[:20]}[… cut]", "Delivery", "Other"]}})
    assert plan["faults"] == []
    assert made(plan)["2"]["classes"] == [BILLING, "Delivery", "Other"]


def test_words_after_the_mark_follow_the_whole_text():
    plan = planned({"id": "3", "params": {"user": f"{marked(LONG, 30)} Use French."}})
    assert made(plan)["3"]["user"] == f"{LONG} Use French."


def test_a_cut_text_that_is_to_be_replaced_is_replaced_whole():
    plan = planned({"id": "3", "replace": [{"param": "user", "old": marked(LONG, 30), "new": "Hi {{#1.question#}}"}]})
    assert plan["faults"] == []
    assert made(plan)["3"]["user"] == "Hi {{#1.question#}}"


@pytest.mark.parametrize("text", ["Answer briefly[… cut]", "[… cut]", "Reply: [… cut: {{#1.question#}}]"])
def test_a_mark_without_its_text_is_a_fault_of_the_plan(text):
    [fault] = planned({"id": "3", "params": {"user": text}})["faults"]
    assert fault.startswith("[plan] 3: ")


def test_a_beginning_that_two_texts_share_stays_cut():
    assert with_whole_texts(["Say[… cut]"], ["Say yes", "Say no"]) == ["Say[… cut]"]
    assert [*still_cut(["Say[… cut]", "Say yes"], ["Say yes", "Say no"])] == ["Say[… cut]"]


def test_a_mark_that_the_workflow_itself_has_is_text():
    assert [*still_cut("a [… cut] b", ["a [… cut] b"])] == []


def test_a_default_beside_a_variable_makes_an_input_optional_and_others_keep_theirs():
    variables = [
        {"name": "question", "type": "string"},
        {"name": "style", "type": "string"},
        {"name": "language", "type": "string", "default": "English"},
        {"name": "city", "type": "string", "required": False},
    ]
    start = made(planned({"id": "1", "params": {"variables": variables}}))["1"]
    assert start["variables"] == [[each["name"], "string"] for each in variables]
    assert start["defaults"] == {"style": "short", "language": "English", "city": None}
