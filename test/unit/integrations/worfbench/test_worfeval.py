"""WorFEval: scores of a predicted workflow against a gold one, and the evaluator made of it."""

import json
import math
import random

import pytest
from amounts import amount, sample
from hypothesis import given, settings
from hypothesis import strategies as st

from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.integrations.worfbench import worfeval
from operad.integrations.worfbench.plan import load
from operad.integrations.worfbench.worf_evaluator import WorFEvaluator
from operad.integrations.worfbench.worfeval import MAX_NODES, MODES, NOTHING, score
from operad.operators import Operator, OperatorConfig
from operad.runtime import BuiltinWorkflow, Job, WorkflowStatus
from operad.runtime.testing import ScriptedReasoner
from operad.runtime.values.errors import InputError, InvalidError

EXACT_MODES = ("paper", "full")

GOLD = "Node:\n1: a\n2: b\n3: c\n4: d\nEdge: (START,1) (1,2) (1,3) (2,4) (3,4) (4,END)"


def graph_of(texts, edges, ids=None):
    ids = ids or [str(number) for number in range(1, len(texts) + 1)]
    nodes = [NodeSpec(node, "task", {"task": text}) for node, text in zip(ids, texts, strict=True)]
    return NodeGraph(nodes, [Edge(ids[a], ids[b]) for a, b in edges])


def permuted(texts, edges, order, ids=None):
    """The same workflow with its nodes listed in another order."""
    at = {node: place for place, node in enumerate(order)}
    return graph_of([texts[node] for node in order], [(at[a], at[b]) for a, b in edges], ids)


@st.composite
def workflows(draw, most=7):
    """Texts, of which some are equal, and edges to later nodes."""
    texts = draw(st.lists(st.sampled_from("abcd"), min_size=1, max_size=most))
    pairs = [(a, b) for b in range(len(texts)) for a in range(b)]
    return texts, draw(st.lists(st.sampled_from(pairs), unique=True, max_size=12)) if pairs else []


# What is counted


@pytest.mark.parametrize("mode", EXACT_MODES)
@pytest.mark.parametrize(
    ("predicted", "node", "graph"),
    [
        (GOLD, 4, 4),
        ("Node:\n1: a\n2: c\n3: b\n4: d\nEdge: (START,1) (1,2) (1,3) (2,4) (3,4) (4,END)", 4, 4),
        ("Node:\n7: a\n2: b\n9: c\n1: d\nEdge: (START,7) (7,2) (7,9) (2,1) (9,1) (1,END)", 4, 4),
        ("Node:\n1: d\n2: c\n3: b\n4: a\nEdge: (START,4) (4,3) (4,2) (3,1) (2,1) (1,END)", 2, 4),
        ("Node:\n1: a\n2: b\n3: c\n4: d\nEdge: (START,1) (1,2) (2,3) (3,4) (4,END)", 4, 2),
        ("Node:\n1: a\n2: b\n3: c\n4: d\nEdge:", 4, 2),
        ("Node:\n1: x\n2: y\n3: z\n4: u\nEdge: (START,1) (1,2)", 0, 0),
        ("1: a\n2: b\n3: c\n4: d", 4, 2),
    ],
)
def test_chain_and_graph_are_counted(mode, predicted, node, graph):
    found = score(predicted, GOLD, mode=mode)
    assert (found.node.f1, found.graph.f1, found.optimal) == (node / 4, graph / 4, True)


def test_precision_is_of_the_prediction_and_recall_of_the_gold_workflow():
    found = score("Node:\n1: a\n2: b\nEdge: (START,1) (1,2) (2,END)", GOLD)
    assert found.node == found.graph == (1.0, 0.5, 2 / 3)
    assert found.matched == (("1", "1"), ("2", "2"))
    assert score(GOLD, "Node:\n1: a\n2: b\nEdge: (START,1) (1,2) (2,END)").node == (0.5, 1.0, 2 / 3)


def test_full_may_match_what_the_best_matching_does_not():
    """The pairs that weigh most leave one node in common, other allowed ones two."""

    def alike(gold, predicted):
        return [[0.9, 0.7], [0.7, 0.9]]

    gold, predicted = graph_of("ab", [(0, 1)]), graph_of("xy", [(1, 0)])
    assert score(predicted, gold, similarity=alike, mode="paper").graph.f1 == 0.5
    assert score(predicted, gold, similarity=alike, mode="full").graph.f1 == 1.0


def test_nodes_of_another_format_are_compared_by_their_types():
    gold = NodeGraph(
        [NodeSpec("1", "start"), NodeSpec("2", "llm"), NodeSpec("3", "code"), NodeSpec("4", "end")],
        [Edge("1", "2"), Edge("2", "3"), Edge("3", "4")],
    )
    predicted = NodeGraph([NodeSpec("x", "llm", {"user": "hi"}), NodeSpec("y", "code")], [Edge("x", "y")])
    assert score(predicted, gold).graph.f1 == 1
    assert score("Node:\n1: llm\n2: code\nEdge: (1,2)", gold).graph.f1 == 1


# What changes nothing


@pytest.mark.parametrize("mode", EXACT_MODES)
@settings(max_examples=amount(10, 60))
@given(workflow=workflows(), data=st.data())
def test_a_workflow_is_like_itself_however_it_is_numbered(mode, workflow, data):
    texts, edges = workflow
    gold = graph_of(texts, edges)
    again = score(gold, gold, mode=mode)
    assert (again.node, again.graph, again.optimal) == ((1, 1, 1), (1, 1, 1), True)
    order = data.draw(st.permutations(range(len(texts))))
    ids = data.draw(st.permutations([str(number) for number in range(50, 50 + len(texts))]))
    assert score(gold, permuted(texts, edges, order, ids), mode=mode)[:2] == ((1, 1, 1), (1, 1, 1))
    other = score(permuted(texts, edges, order, ids), gold, mode=mode)
    assert other.graph == (1, 1, 1)


@settings(max_examples=amount(10, 60))
@given(one=workflows(5), other=workflows(5), data=st.data())
def test_numbers_and_the_order_of_gold_nodes_never_matter(one, other, data):
    """For the graph, the order of predicted nodes does not either."""
    (gold_texts, gold_edges), (texts, edges) = one, other
    gold, predicted = graph_of(gold_texts, gold_edges), graph_of(texts, edges)
    gold_order = data.draw(st.permutations(range(len(gold_texts))))
    order = data.draw(st.permutations(range(len(texts))))
    for mode in EXACT_MODES:
        before = score(predicted, gold, mode=mode)
        renamed = graph_of(texts, edges, [f"n{number}" for number in range(9, 9 + len(texts))])
        after = score(renamed, permuted(gold_texts, gold_edges, gold_order), mode=mode)
        assert (after.node, after.graph) == (before.node, before.graph)
        assert score(permuted(texts, edges, order), gold, mode=mode).graph == before.graph


def test_listing_in_another_topological_order_keeps_the_chain():
    texts, edges = "abcd", [(0, 1), (0, 2), (1, 3), (2, 3)]
    gold = graph_of(texts, edges)
    assert score(permuted(texts, edges, [0, 2, 1, 3]), gold).node.f1 == 1
    assert score(permuted(texts, edges, [1, 0, 2, 3]), gold).node.f1 == 0.75


@pytest.mark.parametrize("mode", EXACT_MODES)
def test_every_gold_workflow_is_like_itself(mode, shared_data):
    rng = random.Random(3)  # noqa: S311 - to number anew with
    count = 0
    for file in sorted(shared_data.glob("worfbench/*.json")):
        for item in sample(json.loads(file.read_text()), 10):
            gold = item["conversations"][-1]["content"]
            found = score(gold, gold, mode=mode)
            assert (found.node, found.graph, found.optimal) == ((1, 1, 1), (1, 1, 1), True), item["id"]
            graph = load(gold.encode())
            names = {node.id: f"n{rng.random()}" for node in graph.nodes}
            nodes = [NodeSpec(names[node.id], node.type, node.params) for node in graph.nodes]
            edges = [Edge(names[edge.source], names[edge.target]) for edge in graph.edges]
            rng.shuffle(nodes)
            assert score(NodeGraph(nodes, edges), gold, mode=mode).graph.f1 == 1, item["id"]
            count += 1
    assert count == amount(146, 1423)


# What is odd


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "predicted",
    ["", "I cannot do that.", b"\xff\xfe", b"x" * (16 * 2**20 + 1), "Edge: (1,2)", NodeGraph(), "\ud800"],
)
def test_a_prediction_of_which_nothing_can_be_read_scores_0(predicted, mode):
    assert score(predicted, GOLD, mode=mode) == NOTHING


@pytest.mark.parametrize("mode", MODES)
def test_odd_predictions_are_scored(mode):
    odd = [
        "Node:\n1: a\n1: b\n1: c\nEdge: (1,1) (1,1)",
        "Node:\n1: a\n2: b\nEdge: (1,7) (8,9) (2,1) (1,2) (START,END)",
        NodeGraph([NodeSpec("1", "task", {"task": 7}), NodeSpec("1", "task", None)], [Edge("1", "1")]),
        graph_of("abcd", [(0, 1), (1, 2), (2, 0), (3, 3)]),
    ]
    for predicted in odd:
        found = score(predicted, GOLD, mode=mode)
        assert 0 <= found.node.f1 <= 1
        assert 0 <= found.graph.f1 <= 1


@pytest.mark.parametrize("mode", EXACT_MODES)
def test_a_gold_workflow_with_a_cycle_is_like_itself(mode):
    gold = graph_of("abcd", [(0, 1), (1, 2), (2, 1), (2, 3), (3, 3)])
    assert score(gold, gold, mode=mode)[:2] == ((1, 1, 1), (1, 1, 1))


@pytest.mark.parametrize(
    ("mode", "text"),
    [*(pytest.param(mode, "{}", marks=pytest.mark.slow) for mode in MODES), *((mode, "step") for mode in MODES)],
)
def test_thousands_of_nodes_are_scored(mode, text):
    many = MAX_NODES if text == "{}" else 300
    texts = [text.format(number) for number in range(many)]
    gold = graph_of(texts, [(number, number + 1) for number in range(many - 1)])
    found = score(gold, gold, mode=mode, seconds=1)
    assert found.node.f1 == 1 or text == "step"
    assert found.graph.f1 > 0


def test_of_more_nodes_than_are_compared_the_rest_counts_as_wrong(monkeypatch):
    monkeypatch.setattr(worfeval, "MAX_NODES", 100)
    texts = [str(number) for number in range(105)]
    found = score(graph_of(texts, []), graph_of(texts, []))
    assert found.node.recall == found.graph.precision == 100 / 105
    assert not found.optimal


@pytest.mark.parametrize("gold", ["", "nothing", b"\xff"])
def test_a_gold_text_that_is_no_workflow_is_refused(gold):
    with pytest.raises(InvalidError, match="gold workflow"):
        score(GOLD, gold)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"gold": NodeGraph(name="empty")}, "gold workflow 'empty': has no nodes"),
        ({"threshold": 0}, "threshold must be a number above 0 and at most 1, not 0"),
        ({"threshold": math.nan}, "threshold"),
        ({"threshold": 60}, "not 60"),
        ({"mode": "best"}, "mode must be one of paper, full, official, not 'best'"),
        ({"similarity": lambda gold, predicted: [[1]]}, r"shape \(1, 1\), not \(4, 4\)"),
    ],
)
def test_settings_that_are_none_are_refused(settings, told):
    with pytest.raises(InputError, match=told):
        score(GOLD, **{"gold": GOLD, **settings})


def test_nan_is_not_similar():
    assert score(GOLD, GOLD, similarity=lambda gold, predicted: [[math.nan] * 4] * 4).node.f1 == 0


# The evaluator


def lessons(predicted, **settings):
    return WorFEvaluator(gold=GOLD, **settings).assess(predicted, Job(goal="Plan."))


def test_findings_say_what_to_change():
    found = lessons("Node:\n1: a\n2: x\n3: d\n4: c\nEdge: (START,1) (1,2) (2,3) (3,4) (1,3)")
    assert list(found.findings) == [
        "no step says 'b': add it, after step 1, before step 3",
        "step 2 ('x') is not needed: leave it out",
        "step 3 is listed before step 4, which it needs: list it after that",
        "step 4 must come after step 1: add (1,4)",
        "step 3 must come after step 4: write (4,3) for (3,4)",
        "step 3 does not depend on step 1: leave out (1,3)",
    ]
    assert found.score == found.figures["graph"]["f1"] == 0.25
    assert found.figures["node"] == {"precision": 0.5, "recall": 0.5, "f1": 0.5}


def test_a_task_in_other_capitals_is_told_how_to_write_it():
    found = lessons("Node:\n1: A\n2: b\n3: c\n4: d\nEdge: (START,1) (1,2) (1,3) (2,4) (3,4)")
    assert found.findings[0] == "write step 1 as 'a', not as 'A'"
    assert not [finding for finding in found.findings if "add it" in finding or "leave it out" in finding]


def test_what_is_no_workflow_is_told_the_form():
    found = lessons("Sorry.")
    assert found.score == 0
    assert found.findings[0].startswith('no workflow could be read: write "Node:"')


def test_a_right_workflow_has_no_findings():
    found = lessons(GOLD)
    assert (found.score, list(found.findings)) == (1, [])


def test_a_long_task_is_told_in_part():
    found = WorFEvaluator(gold=graph_of(["x" * 5000], [])).assess("Node:\n1: y\nEdge:", Job(goal="Plan."))
    assert all(len(finding) < 300 for finding in found.findings)


def test_following_the_lesson_leads_to_success():
    workflow = BuiltinWorkflow(max_rounds=3)
    workflow.add_operator(Operator(OperatorConfig(instruction="Plan.", id="planner")))
    workflow.set_evaluator(WorFEvaluator(gold=GOLD))
    message = workflow.execute(
        Job(goal="Plan."), ScriptedReasoner(["?", GOLD.replace("(2,4)", ""), f"Here it is:\n{GOLD}"])
    )
    assert message.status is WorkflowStatus.SUCCESS
    assert message.score == 10
    assert message.outputs["worfeval"]["graph"]["f1"] == 1
    assert message.outputs["worfeval"]["optimal"] is True


def test_an_evaluator_refuses_settings_that_are_none():
    with pytest.raises(InputError, match="threshold"):
        WorFEvaluator(gold=GOLD, beta=2)
    with pytest.raises(InputError, match="threshold"):
        WorFEvaluator(gold=GOLD, threshold=80)
    with pytest.raises(InvalidError):
        WorFEvaluator(gold="no\nworkflow")


# Mode official: the faults of the authors' program, each with its value


def workflow(texts, edges):
    """`texts` numbered from 1; `edges` as START12END for (START,1) (1,2) (2,END)."""
    return "\n".join(
        ["Node:", *(f"{n}: {text}" for n, text in enumerate(texts, 1)), "Edge: " + " ".join(f"({e})" for e in edges)]
    )


def official(predicted, gold):
    return score(predicted, gold, mode="official")


def parallel(count):
    numbers = range(1, count + 1)
    edges = [f"START,{n}" for n in numbers] + [f"{n},END" for n in numbers]
    return workflow([f"task {n}" for n in numbers], edges)


@pytest.mark.parametrize(("count", "chain"), [(3, 3), (4, 3), (5, 3), (7, 3), (8, 8)])
def test_only_the_first_20_orders_are_tried_and_from_10_nodes_up_the_listed_one(count, chain):
    """Of parallel tasks every order is right; the listed one is among the first 20 of three tasks, not of four. With
    eight tasks there are ten nodes, START and END counted."""
    found = official(parallel(count), parallel(count))
    assert found.node.f1 == (chain + 2) / (count + 2)
    assert found.graph.f1 == 1
    assert score(parallel(count), parallel(count)).node.f1 == 1


def test_from_10_nodes_up_another_right_order_is_wrong():
    gold = parallel(8)
    lines = gold.splitlines()
    turned = "\n".join([lines[0], *lines[8:0:-1], lines[9]])
    assert official(turned, gold).node.f1 == (1 + 2) / (8 + 2)
    assert score(turned, gold).node.f1 == 1


def test_the_same_graph_numbered_anew_scores_a_quarter():
    gold = workflow("ab", ["START,1", "1,2", "2,END"])
    anew = workflow("ba", ["START,2", "2,1", "1,END"])
    assert official(anew, gold).graph.f1 == 0.25
    assert score(anew, gold).graph.f1 == 1


def test_of_the_common_edges_the_largest_connected_part_counts():
    gold = workflow("abcd", ["START,1", "1,2", "2,3", "3,4", "4,END"])
    predicted = workflow("abcd", ["START,1", "1,2", "3,4", "4,END"])
    assert official(predicted, gold).graph.f1 == 3 / 6


def test_edges_count_by_their_numbers_whatever_these_stand_for():
    gold = workflow("abc", ["START,1", "1,2", "2,3", "3,END"])
    assert official(workflow("cab", ["START,1", "1,2", "2,3", "3,END"]), gold).graph.f1 == 1


def test_nothing_matched_on_one_node_scores_1():
    found = official(workflow("x", ["START,1", "1,END"]), workflow("a", ["START,1", "1,END"]))
    assert found.node.f1 == 1
    assert found.matched == ()
    assert score(workflow("x", ["START,1"]), workflow("a", ["START,1"])).node.f1 == 0


def test_nothing_matched_scores_one_node_of_each_besides_start_and_end():
    found = official(workflow("xy", ["START,1", "1,2", "2,END"]), workflow("abcd", ["START,1", "1,2", "4,END"]))
    assert (found.node.precision, found.node.recall) == (3 / 4, 3 / 6)


def test_of_equal_tasks_one_counts():
    gold = workflow("aba", ["START,1", "1,2", "2,3", "3,END"])
    assert official(gold, gold).node.f1 == 4 / 5
    assert score(gold, gold).node.f1 == 1


def test_a_number_within_a_line_is_a_task_too_and_of_gold_ones_with_one_number_the_last_counts():
    gold = "Node:\n1: a\n2: b\nSay 2: c\nEdge: (START,1) (1,2) (2,END)"
    found = official(gold, gold)
    assert (found.node.precision, found.node.recall) == (4 / 5, 1)


def test_a_text_without_the_very_word_edge_and_a_colon_scores_0():
    gold = workflow("ab", ["START,1", "1,2", "2,END"]).replace("Edge:", "Edges:")
    assert official(gold, gold) == NOTHING
    assert score(gold, gold).node.f1 == 1


def test_where_the_program_crashes_the_score_is_0():
    cyclic = workflow("abc", ["START,1", "1,2", "2,1", "2,3", "3,END"])
    assert official(cyclic, cyclic).node.f1 == 0
    assert official("", cyclic) == NOTHING
    assert official("Nothing.", workflow("a", ["START,1"])) == NOTHING


@pytest.mark.slow
def test_gold_workflows_against_themselves_score_as_in_the_authors_program(shared_data):
    """The program's values are 0.937, 0.978 and 0.983 for wikihow, alfworld and toolbench; of lumos, where it has 0.983,
    it is not known why."""
    node, graph = {}, {}
    for file in sorted(shared_data.glob("worfbench/*.json")):
        golds = [item["conversations"][-1]["content"] for item in json.loads(file.read_text())]
        found = [official(gold, gold) for gold in golds]
        node[file.stem] = round(sum(each.node.f1 for each in found) / len(found), 3)
        graph[file.stem] = round(sum(each.graph.f1 for each in found) / len(found), 3)
    assert node == {
        "alfworld": 0.978,
        "lumos": 0.999,
        "os": 1.0,
        "toolalpaca": 0.998,
        "toolbench": 0.983,
        "webshop": 1.0,
        "wikihow": 0.937,
    }
    assert graph.pop("wikihow") == 0.969
    assert min(graph.values()) > 0.99
