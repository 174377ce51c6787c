"""Plans, and the workflows that are drafted from them."""

import json
from dataclasses import replace
from typing import Any

import pytest
from answer_forms import faults

from operad.flows.check import check
from operad.flows.formats import operad
from operad.flows.generation.draft import apply_replacements, drafted_graph, unread
from operad.flows.generation.plan import (
    CHANGE,
    DRAFT,
    After,
    changes,
    normal_plan,
    read_plan,
    unknown_neighbours,
)
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.operators.nodes import NODE_TYPES
from operad.runtime.values.json_schema import check_schema

NONE = NodeGraph()


DECLARED = {"start": "variables", "code": "outputs", "loop": "variables"}


def planned(id, type, change="add", after=(), inside="", gives=()):
    declared = {DECLARED[type]: [{"name": name, "type": kind} for name, kind in gives]} if gives else {}
    return {"id": id, "type": type, "change": change, "inside": inside, "after": list(after), "params": declared}


def plan_of(*nodes, drop=()):
    return {"nodes": list(nodes), "drop": list(drop)}


def drafted(plan, params=None, base=NONE):
    """The workflow of a plan with these parameters of its nodes."""
    nodes = [
        {**each, "params": {**each.get("params", {}), **(params or {}).get(each["id"], {})}} for each in plan["nodes"]
    ]
    return drafted_graph(read_plan({**plan, "nodes": nodes}), base, NODE_TYPES)


START = planned("1", "start", gives=[("topic", "string")])
LLM = planned("2", "llm", after=["1"])
END = planned("3", "end", after=["2"])
SIMPLE = plan_of(START, LLM, END)
PARAMS = {
    "2": {"system": "", "user": "Say {{#1.topic#}}."},
    "3": {"outputs": [{"name": "said", "value": "2.text"}]},
}


def there():
    return drafted(SIMPLE, PARAMS)


def test_a_plan_and_parameters_are_a_sound_workflow():
    graph = there()
    assert check(graph, NODE_TYPES) == []
    assert [spec.id for spec in graph.nodes] == ["1", "2", "3"]
    assert graph.by_id["1"].params == {"variables": [["topic", "string"]]}


@pytest.mark.parametrize("schema", [DRAFT, CHANGE])
def test_a_plan_fits_its_schema_and_may_leave_out_what_is_empty(schema):
    check_schema(schema)
    short = [{"id": "1", "type": "start", "after": []}]
    assert not faults(schema, {"reasoning": "", "nodes": short})
    assert not faults(schema, {"reasoning": "", "nodes": [{**short[0], "params": {}}], "left_out": {}})


def faults_in(answer, base=NONE):
    plan = normal_plan(answer, base, NODE_TYPES)
    return [*plan["faults"], *unknown_neighbours(read_plan(plan), base)]


@pytest.mark.parametrize(
    ("plan", "place"),
    [
        (plan_of(START, LLM, LLM, END), "4"),
        (plan_of(START, planned("2", "llm", after=["1x"]), END), "2"),
        (plan_of(START, planned("2", "llm", after=["1:if"]), END), "2"),
        (plan_of(START, planned("2", "llm", after=["1"], inside="7"), END), "2"),
        *(
            (plan_of(START, planned(name, "llm", after=["1"]), planned("3", "end")), "2")
            for name in ("a b", "", "<outcome>", "../x", "2|3", "\x00", "\u202e2", "\ud800", "x" * 5_000)
        ),
        (plan_of(START, {"id": "2", "after": ["1"]}, planned("3", "end")), "2"),
        (plan_of(START, LLM, END, drop=["9"]), "9"),
        (plan_of(*[planned(str(n), "llm") for n in range(170)]), "workflow"),
    ],
)
def test_what_has_no_reading_in_a_plan_is_said_of_its_node(plan, place):
    [fault] = faults_in(plan)
    assert fault.startswith(f"[plan] {place}: ")


def test_a_port_that_is_no_number_is_told_how_to_write_it():
    [fault] = faults_in(plan_of(START, planned("2", "llm", after=["1:if"]), END))
    assert "'1:0'" in fault


def test_a_node_that_is_there_keeps_an_id_that_a_new_one_could_not_have():
    base = there()
    odd = replace(base, nodes=[replace(spec, id="2.b") if spec.id == "2" else spec for spec in base.nodes])
    assert faults_in(plan_of(planned("2.b", "llm", "update", after=["1"])), odd) == []


@pytest.mark.parametrize("node", [planned("2", "llm"), planned("2", "code", change="update")])
def test_a_new_node_with_the_id_of_another_gets_a_free_one_and_is_told(node):
    plan = normal_plan(plan_of(node), there(), NODE_TYPES)
    assert [(each["id"], each["change"]) for each in plan["nodes"]] == [("4", "add")]
    assert "is there already (llm)" in plan["faults"][0]


def test_a_node_may_be_dropped_and_planned_anew_with_another_type():
    plan = normal_plan(plan_of(planned("2", "code", "update"), drop=["2"]), there(), NODE_TYPES)
    assert (plan["nodes"][0]["change"], plan["faults"]) == ("add", [])


VARIABLES = {"variables": [{"name": "text", "type": "string"}]}


@pytest.mark.parametrize(
    "answer",
    [
        {"nodes": [{"id": 1, "type": "Start", "params": VARIABLES}, {"id": 2, "type": "LLM", "after": 1, "params": {}}]},
        {"nodes": {"1": {"type": "start", "params": VARIABLES}, "2": {"type": "llm", "after": "1", "params": {}}}},
        {"nodes": json.dumps([{"id": "1", "type": "begin", "after": "", "params": json.dumps(VARIABLES)},
                              {"id": "2", "type": "Large Language Model", "after": ["1"], "params": "{}"}])},
        {"nodes": [{"id": " 1 ", "type": "start", "after": None, "params": VARIABLES, "inside": None},
                   {"id": "2", "type": "llm", "after": [1], "params": {}}], "notes": None, "drop": ""},
    ],
)  # fmt: skip
def test_a_plan_that_has_one_reading_is_read(answer):
    plan = normal_plan(answer, NONE, NODE_TYPES)
    assert plan["faults"] == []
    start, llm = read_plan(plan).nodes
    assert (start.id, start.type, start.params) == ("1", "start", VARIABLES)
    assert (llm.id, llm.type, llm.predecessors, llm.params) == ("2", "llm", (After("1"),), {})


def test_reasons_of_a_plan_are_read_from_objects_lists_and_texts():
    plan = read_plan(normal_plan({"notes": "one note", "left_out": ["a picture"], "neither": {"x": " a\n tool "}},
                                 NONE, NODE_TYPES))  # fmt: skip
    assert plan.notes == ("one note",)
    assert (plan.left_out, plan.neither) == ({"a picture": ""}, {"x": "a tool"})


@pytest.mark.parametrize("value", [None, 7, "x", [], [7, None, []], {"1": 7}, {"": {}}, True, [{"id": {}}], 10**400])
@pytest.mark.parametrize("key", ["nodes", "drop", "notes", "outdated", "left_out", "neither", "unapproved", "samples"])
def test_a_plan_of_any_form_is_read_without_an_error(key, value):
    for base in (NONE, there()):
        plan = normal_plan({"nodes": [planned("2", "llm", "update")], key: value}, base, NODE_TYPES)
        read = read_plan(json.loads(json.dumps(plan)))
        drafted_graph(read, base, NODE_TYPES)


def test_a_node_whose_result_nothing_reads_is_told_of():
    plan = plan_of(START, LLM, planned("4", "llm", after=["2"]), END)
    graph = drafted(plan, {**PARAMS, "4": {"system": "", "user": "{{#2.text#}}"}}, NONE)
    assert [spec.id for spec in unread(graph)] == ["4"]


def test_a_change_leaves_all_else_the_very_same():
    base = there()
    plan = plan_of(planned("4", "llm", after=["2"]), planned("3", "end", "update", after=["4"]))
    params = {
        "4": {"system": "", "user": "Translate {{#2.text#}}"},
        "3": {"outputs": [{"name": "said", "value": "2.text"}, {"name": "french", "value": "4.text"}]},
    }
    graph = drafted(plan, params, base)
    assert check(graph, NODE_TYPES) == []
    assert graph.by_id["1"] is base.by_id["1"]
    assert graph.by_id["2"] is base.by_id["2"]
    assert {(edge.source, edge.target) for edge in graph.edges} == {("1", "2"), ("2", "4"), ("4", "3")}


def test_what_is_dropped_is_gone_with_its_edges():
    base = there()
    plan = plan_of(planned("3", "end", "update", after=["1"]), drop=["2"])
    graph = drafted(plan, {"3": {"outputs": [{"name": "said", "value": "1.topic"}]}}, base)
    assert check(graph, NODE_TYPES) == []
    assert [(edge.source, edge.target) for edge in graph.edges] == [("1", "3")]


def test_what_runs_inside_an_iteration_gets_its_start():
    plan = plan_of(
        planned("1", "start", gives=[("files", "array[file]")]),
        planned("2", "document-extractor", after=["1"]),
        planned("3", "iteration", after=["2"]),
        planned("3-2", "llm", inside="3"),
        planned("4", "end", after=["3"]),
    )
    params = {
        "2": {"variable_selector": "1.files"},
        "3": {"iterator_selector": "2.text", "output_selector": "3-2.text"},
        "3-2": {"system": "", "user": "Sum up: {{#3.item#}}"},
        "4": {"outputs": [{"name": "all", "value": "3.output"}]},
    }
    graph = drafted(plan, params, NONE)
    assert check(graph, NODE_TYPES) == []


def test_nodes_inside_an_iteration_stay_right_behind_it_when_others_are_added():
    plan = plan_of(
        planned("1", "start", gives=[("files", "array[file]")]),
        planned("3", "iteration", after=["1"]),
        planned("3-2", "document-extractor", inside="3"),
        planned("4", "end", after=["3"]),
    )
    params = {
        "3": {"iterator_selector": "1.files", "output_selector": "3-2.text"},
        "3-2": {"variable_selector": "3.item"},
        "4": {"outputs": [{"name": "all", "value": "3.output"}]},
    }
    base = drafted(plan, params, NONE)
    assert [spec.id for spec in base.nodes] == ["1", "3", "3-1", "3-2", "4"]
    assert unread(base) == [], "an iteration reads what its items come to"
    more = plan_of(
        planned("5", "llm", after=["3"]),
        planned("3-3", "llm", after=["3-2"], inside="3"),
        planned("4", "end", "update", after=["5"]),
    )
    params = {
        "5": {"system": "", "user": "{{#3.output#}}"},
        "3-3": {"system": "", "user": "{{#3-2.text#}}"},
        "4": {"outputs": [{"name": "all", "value": "5.text"}]},
    }
    graph = drafted(more, params, base)
    assert [spec.id for spec in graph.nodes] == ["1", "3", "3-1", "3-2", "3-3", "4", "5"]
    assert b"inside:" not in operad.dump(graph)


def test_what_a_node_reads_leads_to_it():
    plan = plan_of(
        START, planned("2", "llm", after=["1"]), planned("3", "llm", after=["1"]), planned("4", "end", after=["3"])
    )
    params = {
        "2": {"system": "", "user": "{{#1.topic#}}"},
        "3": {"system": "", "user": "{{#2.text#}}"},
        "4": {"outputs": [{"name": "said", "value": "3.text"}]},
    }
    graph = drafted(plan, params, NONE)
    assert Edge("2", "3") in graph.edges
    assert check(graph, NODE_TYPES) == []


def test_a_port_is_said_behind_a_colon():
    nodes = [
        {"id": "1", "type": "start", "after": [], "params": {"variables": [{"name": "topic", "type": "string"}]}},
        {"id": "2", "type": "if-else", "after": ["1"]},
        {"id": "3", "type": "end", "after": ["2:1"]},
    ]
    plan = read_plan({"reasoning": "", "nodes": nodes, "notes": ["no Slack:\n a text instead", " "]})
    assert plan.nodes[2].predecessors == (After("2", 1),)
    assert plan.notes == ("no Slack: a text instead",)


@pytest.mark.parametrize(
    ("kind", "params", "after"),
    [
        ("if-else", {"cases": [{}]}, ["2:true", "2:False"]),
        ("if-else", {"cases": [{}]}, ["2:0", "2:else"]),
        ("question-classifier", {"classes": ["Complaint", "praise"]}, ["2:complaint", "2: praise"]),
    ],
)
def test_a_port_may_be_said_by_its_name(kind, params, after):
    nodes = [{"id": "2", "type": kind, "after": [], "params": params}, {"id": "3", "type": "end", "after": after}]
    assert read_plan({"nodes": nodes}).nodes[1].predecessors == (After("2", 0), After("2", 1))
    [unknown] = read_plan({"nodes": [nodes[0], {**nodes[1], "after": ["2:maybe"]}]}).nodes[1].predecessors
    assert unknown == After("2:maybe")


def test_a_small_change_of_a_long_text_is_a_replacement():
    base = there()
    say = {"param": "user", "old": "Say", "new": "Whisper"}
    node = {"id": "2", "type": "llm", "change": "update", "replace": [say]}
    graph = drafted({"nodes": [node]}, {}, base)
    assert graph.by_id["2"].params == {"system": "", "user": "Whisper {{#1.topic#}}."}
    assert graph.edges == base.edges
    wrong = read_plan({"nodes": [{**node, "replace": [{**say, "old": "Shout"}]}]})
    [fault] = apply_replacements(wrong, base, NODE_TYPES)[1]
    assert "does not stand in user of '2'" in fault


def test_a_renamed_variable_is_renamed_wherever_it_is_read_and_nothing_else_changes():
    base = there()
    plan = read_plan(normal_plan({"rename": {"1.topic": "subject"}}, base, NODE_TYPES))
    assert changes(plan)
    graph = drafted_graph(plan, base, NODE_TYPES)
    assert graph.by_id["1"].params["variables"][0][0] == "subject"
    assert graph.by_id["2"].params == {"system": "", "user": "Say {{#1.subject#}}."}
    untouched = [spec for spec in base.nodes if spec.id not in ("1", "2")]
    assert all(graph.by_id[spec.id] is spec for spec in untouched)
    assert graph.edges == base.edges


@pytest.mark.parametrize(
    "rename", [{"1.unheard": "a"}, {"9.topic": "a"}, {"1.topic": "two words"}, {"1.topic": ""}, ["x"]]
)
def test_a_variable_that_cannot_be_renamed_is_a_fault_of_the_plan(rename):
    base = there()
    plan = read_plan(normal_plan({"rename": rename}, base, NODE_TYPES))
    graph, [fault] = apply_replacements(plan, base, NODE_TYPES)
    assert fault.startswith("[plan] ")
    assert graph is base


def test_an_update_names_only_the_parameters_that_change():
    base = there()
    node = {"id": "2", "type": "llm", "change": "update", "params": {"system": "Be brief."}}
    graph = drafted({"nodes": [node]}, {}, base)
    assert graph.by_id["2"].params == {"system": "Be brief.", "user": "Say {{#1.topic#}}."}


def test_a_workflow_with_faults_can_be_planned_upon():
    base = NodeGraph(
        [NodeSpec("1", "start", {"variables": "broken"}), NodeSpec("2", "unheard-of", None)], [Edge("1", "7")]
    )
    plan = plan_of(planned("3", "end", after=["1"]))
    drafted(plan, {}, base)


LOOPING = plan_of(
    START,
    planned("2", "loop", after=["1"], gives=[("best", "string"), ("score", "number")]),
    planned("2-1", "llm", inside="2"),
    planned("2-2", "assigner", after=["2-1"], inside="2"),
    planned("3", "end", after=["2"]),
)


def test_what_an_assigner_sets_is_read_by_its_loop():
    params = {"2-2": {"assignments": [{"variable": "2.best", "value": "{{#2-1.text#}}"}]}}
    graph = drafted(LOOPING, params, NONE)
    assert "2-2" not in [spec.id for spec in unread(graph)]


def test_a_loop_gets_its_start_before_its_first_node():
    graph = drafted(LOOPING, {}, NONE)
    assert [(spec.id, spec.type) for spec in graph.nodes][1:3] == [("2", "loop"), ("2-0", "loop-start")]
    assert Edge("2-0", "2-1") in graph.edges
    assert Edge("2-0", "2-2") not in graph.edges


def test_dropping_a_container_drops_what_is_inside_at_any_depth():
    nodes = [NodeSpec("1", "start"), NodeSpec("2", "iteration"), NodeSpec("3", "end")]
    inside = [NodeSpec("2-1", "loop", {}, "2"), NodeSpec("2-1-1", "llm", {}, "2-1"), NodeSpec("x", "llm", {}, "2")]
    base = NodeGraph([*nodes, *inside])
    assert normal_plan({"drop": ["2"]}, base, NODE_TYPES)["drop"] == ["2", "2-1", "2-1-1", "x"]
    assert normal_plan({"drop": ["2-1"]}, base, NODE_TYPES)["drop"] == ["2-1", "2-1-1"]
    kept = normal_plan({"drop": ["2"], "nodes": [{"id": "x", "after": ["1"]}]}, base, NODE_TYPES)
    assert kept["drop"] == ["2", "2-1", "2-1-1"]


@pytest.mark.parametrize(
    ("node", "replaced", "params"),
    [
        ("2", {"param": "user", "old": "", "new": "In French."}, {"user": "Sum up {{#1.t#}}.\nIn French."}),
        ("2", {"param": "params.user", "old": "Sum up", "new": "Cut"}, {"user": "Cut {{#1.t#}}."}),
        ("2", {"param": "", "old": "Be brief", "new": "Be kind"}, {"system": "Be kind."}),
        ("3", {"param": "parameters", "old": "due date", "new": "day"}, {"parameters": [["The day", "due", "string"]]}),
        ("3", {"param": "parameters[0].description", "old": "due ", "new": ""},
         {"parameters": [["The date", "due", "string"]]}),
    ],
)  # fmt: skip
def test_words_are_replaced_in_the_only_text_that_has_them_or_added_at_the_end(node, replaced, params):
    base = NodeGraph(
        [
            NodeSpec("2", "llm", {"system": "Be brief.", "user": "Sum up {{#1.t#}}."}),
            NodeSpec("3", "parameter-extractor", {"parameters": [["The due date", "due", "string"]]}),
        ]
    )
    plan = read_plan(normal_plan({"nodes": [{"id": node, "replace": [replaced]}]}, base, NODE_TYPES))
    graph, faults = apply_replacements(plan, base, NODE_TYPES)
    assert faults == []
    assert graph.by_id[node].params == {**base.by_id[node].params, **params}


@pytest.mark.parametrize(
    "replaced", [{"param": "user", "old": "e", "new": "x"}, {"param": "no", "old": "a"}, {"param": "[", "old": "a"}, {}]
)
def test_words_that_cannot_be_replaced_are_a_fault_of_the_plan(replaced):
    base = NodeGraph([NodeSpec("2", "llm", {"system": "Be brief.", "user": "We see."})])
    plan = read_plan(normal_plan({"nodes": [{"id": "2", "replace": [replaced]}]}, base, NODE_TYPES))
    graph, [fault] = apply_replacements(plan, base, NODE_TYPES)
    assert fault.startswith("[plan] 2: ")
    assert graph is base


def test_values_of_typed_variables_that_are_written_as_texts_are_read():
    variables = [
        {"name": "best", "type": "number", "value": "0"},
        {"name": "all", "type": "array[string]", "value": "[]"},
        {"name": "text", "type": "string", "value": "0"},
    ]
    plan = {"nodes": [{"id": "2", "type": "loop", "params": {"loop_count": 3, "variables": variables}}]}
    loop = drafted(plan, {}, NONE).by_id["2"]
    assert loop.params["variables"] == [["best", "number", 0], ["all", "array[string]", []], ["text", "string", "0"]]


ENTERPRISE, FREE, PRO = (
    {"logic": "and", "conditions": [{"variable": "1.plan", "operator": "is", "value": plan}]}
    for plan in ("enterprise", "free", "pro")
)


@pytest.mark.parametrize(
    ("node", "before", "after", "ports"),
    [
        ("question-classifier", ["bill", "other"], ["bill", "complaint", "other"], {"a": 0, "b": 2}),
        ("question-classifier", ["bill", "other"], ["bills", "other", "complaint"], {"a": 0, "b": 1}),
        ("question-classifier", ["bill", "order", "other"], ["bill", "other"], {"a": 0}),
        ("question-classifier", ["bill", "other"], ["other", "complaint"], {"b": 0}),
        ("if-else", [ENTERPRISE], [ENTERPRISE, FREE], {"a": 0, "b": 2}),
        ("if-else", [ENTERPRISE], [FREE, ENTERPRISE], {"a": 1, "b": 2}),
        ("if-else", [ENTERPRISE], [PRO], {"a": 0, "b": 1}),
        ("human-input", ["yes"], ["yes", "no"], {"a": 0, "b": 2}),
        ("llm", [], [], {"a": 0, "b": 1}),
    ],
)
def test_an_edge_that_a_change_does_not_mention_stays_at_its_branch(node, before, after, ports):
    def params(branches: list[Any]) -> dict[str, Any]:
        return {
            "if-else": {"cases": branches},
            "question-classifier": {"query_variable_selector": "1.plan", "classes": branches},
            "human-input": {"question": "Send?", "actions": [{"id": each, "title": each} for each in branches]},
            "llm": {"system": "", "user": f"Greet {len(branches)}.", "failure": {"then": "branch"}},
        }[node]

    first = plan_of(
        planned("1", "start", gives=[("plan", "string")]),
        planned("2", node, after=["1"]),
        planned("a", "end", after=["2:0"]),
        planned("b", "end", after=["2:1"]),
    )
    ends = {"a": {"outputs": []}, "b": {"outputs": []}}
    base = drafted(first, {"2": params(before), **ends}, NONE)
    changed = drafted(plan_of(planned("2", node, "update")), {"2": params(after)}, base)
    assert {edge.target: edge.port for edge in changed.edges if edge.source == "2"} == ports
