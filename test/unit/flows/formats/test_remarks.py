"""What imported files say that is done otherwise here: every field is honoured, known to have no effect, or told."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from amounts import amount, sample

from operad.flows.assemble import assemble
from operad.flows.check import check
from operad.flows.formats import chat2workflow
from operad.flows.formats.fields import LossyError, Use, summary
from operad.flows.formats.remarks import remarks_of
from operad.flows.formats.table import FORMATS
from operad.flows.formats.yaml_text import read_yaml, write_yaml
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.integrations.coze import format as coze
from operad.integrations.coze.archive import packed
from operad.integrations.coze.write import Writer
from operad.integrations.dify import format as dify
from operad.integrations.dify.remarks import NODES, remarks_on_values
from operad.operators.nodes import NODE_TYPES
from operad.runtime import Job
from operad.runtime.testing import ScriptedReasoner
from operad.runtime.values.errors import InvalidError

DATA = Path(__file__).parents[2] / "data" / "dify"

START = {"type": "start", "title": "Start", "variables": [{"variable": "t", "type": "paragraph"}]}
END = {"type": "end", "title": "End", "outputs": [{"variable": "x", "value_selector": ["1", "t"]}]}
ASK = {"type": "llm", "title": "Ask", "prompt_template": [{"role": "user", "text": "{{#1.t#}}"}]}
SORT = {
    "type": "question-classifier",
    "title": "Sort",
    "query_variable_selector": ["1", "t"],
    "classes": [{"id": "1", "name": "A"}, {"id": "2", "name": "B"}],
}
READ = {
    "type": "parameter-extractor",
    "title": "Read",
    "query": ["1", "t"],
    "parameters": [{"name": "sum", "type": "number", "description": "A sum", "required": True}],
}
CODE = {"type": "code", "title": "Count", "code": "def main():\n    return {}", "variables": [], "outputs": {}}
FETCH = {"type": "http-request", "title": "Fetch", "method": "get", "url": "{{#1.t#}}"}
TOOL = {"type": "tool", "title": "Slides", "provider_id": "a/b/c", "tool_name": "slides", "tool_parameters": {}}
SEARCH = {"type": "tool", "provider_id": "langgenius/google/google", "tool_name": "google_search"}
LOOP = {"type": "loop", "title": "Loop", "loop_count": 2, "loop_variables": [], "break_conditions": []}
LOOK = {"type": "knowledge-retrieval", "dataset_ids": [], "query_variable_selector": ["1", "t"]}
IF = {"type": "if-else", "title": "If", "cases": [{"case_id": "true", "conditions": []}]}


def dsl(*nodes, edges=None, **workflow):
    """Values of a Dify file: nodes as (id, data) after a start node, which has an edge to each without other edges."""
    edges = [("1", node_id) for node_id, _ in nodes] if edges is None else edges
    entries = [{"id": node_id, "data": data} for node_id, data in (("1", START), *nodes)]
    links = [{"source": source, "target": target} for source, target in edges]
    graph = {"nodes": entries, "edges": links}
    return {"app": {"mode": "workflow", "name": "made"}, "kind": "app", "workflow": {"graph": graph, **workflow}}


def loaded(*nodes, **more):
    """Such a file as a workflow."""
    return dify.load(write_yaml(dsl(*nodes, **more)))


def fields(graph, *, lossy):
    """The fields of a workflow that remarks are on, with what they say."""
    return {each.field: each.says for each in remarks_of(graph) if each.lossy is lossy}


DIFY_LOSSES = [
    (ASK, {"prompt_template": [{"role": "user", "text": "a"}, {"role": "assistant", "text": "b"}]}, "prompt_template", "an empty message of the user follows"),
    (ASK, {"model": {"name": "m", "completion_params": {"response_format": "json_object"}}}, "model.completion_params.response_format", "the model is asked for no such form"),
    (SORT, {"memory": {"window": {}}}, "memory", "the model sees no earlier turns"),
    (SORT, {"vision": {"enabled": True, "configs": {"variable_selector": ["1", "f"]}}}, "vision", "the model is shown no files"),
    (FETCH, {"ssl_verify": False}, "ssl_verify", "certificates are verified"),
    (TOOL, {"tool_configurations": {"theme": {"type": "constant", "value": "dark"}}}, "tool_configurations", "the tool that you name is called without"),
    (SEARCH, {"tool_configurations": {"as_agent_tool": True}}, "tool_configurations", "the tool that you name is called without"),
    (SEARCH, {"tool_parameters": {"query": {"value": "x"}, "gl": {"value": "de"}}}, "tool_parameters.gl", "is not passed on"),
    (LOOP, {"error_handle_mode": "continue-on-error"}, "error_handle_mode", "an error ends the run"),
    (LOOK, {"metadata_filtering_mode": "automatic"}, "metadata_filtering_mode", "all documents are searched"),
    (ASK, {"guardrails": {"on": True}}, "guardrails", "is an unknown field"),
    (ASK, {"context": {"enabled": False, "depth": 3}}, "context.depth", "is an unknown field"),
]  # fmt: skip


@pytest.mark.parametrize(("data", "more", "field", "says"), DIFY_LOSSES, ids=lambda each: each if isinstance(each, str) else None)  # fmt: skip
def test_a_field_of_dify_that_changes_results_is_a_loss(data, more, field, says):
    without = fields(loaded(("2", data)), lossy=True)
    found = fields(loaded(("2", {**data, **more})), lossy=True)
    assert without == {}
    assert list(found) == [field]
    assert found[field].startswith(says)


NOTES = [
    ({**START, "variables": [{"variable": "t", "type": "select", "options": ["a"], "required": False, "default": "a"}]}, ["variables[0].options"]),
    ({**ASK, "model": {"name": "gpt", "provider": "openai", "completion_params": {"temperature": 0}}}, ["model"]),
    ({**ASK, "prompt_template": [{"role": "user", "text": "a"}, {"role": "system", "text": "b"}]}, []),
    ({**READ, "reasoning_mode": "function_call"}, ["reasoning_mode"]),
    ({**READ, "parameters": [{**READ["parameters"][0], "options": ["a"]}]}, ["parameters"]),
    ({**FETCH, "timeout": {"read": 5}}, ["timeout"]),
    ({**ASK, "guardrails": False}, ["guardrails"]),
]  # fmt: skip


@pytest.mark.parametrize(("data", "expected"), NOTES)
def test_what_is_done_otherwise_without_effect_on_results_is_a_note(data, expected):
    graph = loaded(("2", data))
    assert fields(graph, lossy=True) == {}
    assert sorted(fields(graph, lossy=False)) == sorted(expected)


@pytest.mark.parametrize("read", ["error_type", "error_message"])
def test_a_file_that_reads_the_type_of_an_error_is_told_that_it_has_other_names_here(read):
    failing = {**ASK, "error_strategy": "fail-branch"}
    end = {"type": "end", "title": "", "outputs": [{"variable": "x", "value_selector": ["2", read]}]}
    told = [each for each in remarks_of(loaded(("2", failing), ("3", end))) if each.field == "error_type"]
    assert [(each.node, each.lossy) for each in told] == ([("2", False)] if read == "error_type" else [])


def test_a_variable_error_type_of_a_node_that_does_not_go_on_after_an_error_is_not_told():
    end = {"type": "end", "title": "", "outputs": [{"variable": "x", "value_selector": ["2", "error_type"]}]}
    graph = loaded(("2", {**ASK, "retry_config": {"retry_enabled": True, "max_retries": 2}}), ("3", end))
    assert "error_type" not in {each.field for each in remarks_of(graph)}


def test_nodes_of_dify_that_no_path_leads_to_are_told_and_do_not_run():
    standing = [("7", {**ASK, "guardrails": {"on": True}}), ("8", ASK)]
    end = {"type": "end", "title": "", "outputs": [{"variable": "x", "value_selector": ["1", "t"]}]}
    graph = loaded(("3", end), *standing)
    graph = replace(graph, edges=[Edge("1", "3"), Edge("7", "8")])
    assert check(graph.runnable, NODE_TYPES) == []
    assert [(each.node, each.field, each.lossy) for each in remarks_of(graph) if each.node in ("7", "8")] == [
        ("7", "edges", False),
        ("8", "edges", False),
    ]
    assert assemble(graph, NODE_TYPES).run({"t": "a"}).message.outputs == {"x": "a"}
    assert "unreachable" in {issue.code for issue in check(graph, NODE_TYPES)}
    reads = NodeSpec("3", "end", {"outputs": [["x", ["text", "8"]]]})
    read = replace(graph, nodes=[graph.by_id["1"], reads, graph.by_id["7"], graph.by_id["8"]])
    [issue] = check(read.runnable, NODE_TYPES)
    assert issue.message == "outputs[0].value: 'text' of '8': no path leads to node '8' from the start"
    joined = replace(graph, edges=[*graph.edges, Edge("8", "3")])  # the end would wait for it
    assert "unreachable" in {issue.code for issue in check(joined.runnable, NODE_TYPES)}


OFF = [
    {**ASK, "memory": None, "retry_config": {"retry_enabled": False, "max_retries": 3}, "error_strategy": "none"},
    {**ASK, "vision": {"enabled": False, "configs": {"detail": "high"}}, "structured_output_enabled": False},
    {**ASK, "vision": {"enabled": True, "configs": {"variable_selector": ["1", "f"]}}, "reasoning_format": "tagged"},
    {
        **ASK,
        "default_value": [{"key": "text", "type": "string", "value": ""}],
        "selected": True,
        "_isRunning": True,
        "height": 90,
        "desc": "Asks.",
    },
    {**LOOK, "metadata_filtering_mode": "disabled"},
    {**READ, "parameters": [{"name": "a", "type": "select", "options": ["x", "y"], "required": False}]},
    {**SEARCH, "tool_configurations": {"as_agent_tool": False}},
]


@pytest.mark.parametrize("data", OFF)
def test_what_is_turned_off_and_what_only_people_see_is_not_told(data):
    told = [each.field for each in remarks_of(loaded(("2", data)))]
    assert [each for each in told if each != "dataset_ids"] == []


def test_a_knowledge_base_is_told_by_the_name_that_the_services_give_it():
    graph = loaded(("2", {**LOOK, "dataset_ids": ["a", "b"]}))
    assert f"{graph.by_id['2'].params['knowledge']!r}" in fields(graph, lossy=False)["dataset_ids"]


def test_features_of_a_file_are_told():
    features = {
        "opening_statement": "Good day.",
        "suggested_questions_after_answer": {"enabled": True},
        "text_to_speech": {"enabled": False},
        "retriever_resource": {"enabled": True},
        "sensitive_word_avoidance": {"enabled": True, "type": "keywords"},
        "annotation_reply": {"enabled": True},
        "mood": {"enabled": True},
    }
    variables = [{"name": "KEY", "value": "x", "value_type": "secret"}]
    graph = loaded(("2", END), features=features, environment_variables=variables)
    assert sorted(fields(graph, lossy=True)) == [
        "workflow.features.annotation_reply",
        "workflow.features.mood",
        "workflow.features.sensitive_word_avoidance",
    ]
    assert sorted(fields(graph, lossy=False)) == [
        "workflow.environment_variables",
        "workflow.features.suggested_questions_after_answer",
    ]


REFUSED = [("code", "code_language", {**CODE, "code_language": "ruby"})]


@pytest.mark.parametrize(("kind", "field", "data"), REFUSED)
def test_what_is_declared_refused_is_refused_by_the_check(kind, field, data):
    graph = loaded(("2", data))
    issues = [each for each in check(graph, NODE_TYPES) if each.code == "unknown-param"]
    assert [(each.where, each.message.partition(":")[0]) for each in issues] == [("2", field)]
    assert not [each for each in remarks_of(graph) if each.lossy]


def test_every_declared_refusal_is_tried():
    declared = {(kind, path.rpartition(".")[2]) for kind, table in NODES.items() for path, each in table.paths() if each.use is Use.REFUSED}  # fmt: skip
    assert declared - {(kind, field) for kind, field, _ in REFUSED} == set()


# What is done with the remarks


async def test_a_lossy_workflow_runs_only_with_leave():
    params = {"name": "m", "completion_params": {"response_format": "json_object"}}
    ask = {**ASK, "model": params, "guardrails": {"on": True}}
    end = {**END, "outputs": [{"variable": "x", "value_selector": ["2", "text"]}]}
    graph = loaded(("2", ask), ("3", end), edges=[("1", "2"), ("2", "3")])
    with pytest.raises(LossyError, match="'made': results may differ from those on its own platform: 'Ask'") as caught:
        assemble(graph, NODE_TYPES)
    assert {each.field for each in caught.value.losses} == {"model.completion_params.response_format", "guardrails"}
    assert "\n" not in str(caught.value)
    workflow = assemble(graph, NODE_TYPES, lossy=True)
    said = await workflow.aexecute(Job(goal="", inputs={"t": "Hello"}), ScriptedReasoner("Good day"))
    assert said.outputs == {"x": "Good day"}


@pytest.mark.parametrize("name", ["operad", "dify"])
def test_losses_stay_known_in_other_files_and_after_changes(name):
    graph = loaded(("2", {**ASK, "guardrails": {"on": True}}), ("3", END), edges=[("1", "2"), ("2", "3")])
    again = FORMATS[name].load(FORMATS[name].dump(graph), "flow")
    assert fields(again, lossy=True).keys() == {"guardrails"}
    other = [replace(node, params={"system": "", "user": "Other"}) if node.id == "2" else node for node in again.nodes]
    assert fields(replace(again, nodes=other), lossy=True).keys() == {"guardrails"}
    gone = [node for node in again.nodes if node.id != "2"]
    assert fields(replace(again, nodes=gone), lossy=True) == {}


def test_workflows_of_ours_have_no_remarks():
    nodes = [
        NodeSpec("1", "start", {"variables": [["t", "string"]]}),
        NodeSpec("2", "http-request", {"url": ["t", "1"]}),
    ]
    graph = NodeGraph(nodes)
    assert remarks_of(graph) == []
    assert [each for each in remarks_on_values(values_of(graph)) if each.lossy] == []


def test_a_summary_names_fields_by_node():
    graph = loaded(("2", {**ASK, "guardrails": {"a": 1}, "odd": 1}), features={"annotation_reply": {"enabled": True}})
    assert summary([each for each in remarks_of(graph) if each.lossy]) == (
        "workflow.features.annotation_reply; 'Ask' (2): guardrails, odd"
    )


# Coze


def archive(change):
    """An archive of a workflow that asks a model, with its llm node changed."""
    ask = NodeSpec("2", "llm", {"system": "Be brief.", "user": "{{#1.t#}}"})
    start = NodeSpec("1", "start", {"variables": [["t", "string"]]})
    end = NodeSpec("3", "end", {"outputs": [["x", ["text", "2"]]]})
    writer = Writer(NodeGraph([start, ask, end], [Edge("1", "2"), Edge("2", "3")], "flow"))
    flow = writer.flow
    change(next(node for node in flow["nodes"] if node["type"] == "llm")["parameters"])
    return packed(writer.name, flow, writer.about, {})


def named(name, value):
    return {"name": name, "input": {"type": "string", "value": {"type": "literal", "content": value}}}


COZE = [
    (lambda p: p["llmParam"].append(named("modelName", "doubao")), "llmParam.modelName", False),
    (lambda p: p.update(fcParamVar={"pluginFCParam": {"pluginList": [1]}}), "fcParamVar", True),
    (lambda p: p.update(batchMode="batch"), "batchMode", True),
    (lambda p: p.update(mood="good"), "mood", True),
]


@pytest.mark.parametrize(("change", "field", "lossy"), COZE)
def test_fields_of_coze_are_told(change, field, lossy):
    graph = coze.load(archive(change))
    assert [(each.node, each.field, each.lossy) for each in remarks_of(graph)] == [("2", field, lossy)]
    if lossy:
        with pytest.raises(LossyError):
            assemble(graph, NODE_TYPES)


def test_an_archive_of_ours_and_errors_that_end_the_run_at_coze_too_are_no_remarks():
    same = [lambda _: None, lambda p: p.update(settingOnError={"switch": False, "retryTimes": 0, "timeoutMs": 60000})]
    assert [remarks_of(coze.load(archive(each))) for each in same] == [[], []]


# Files


@pytest.mark.parametrize(
    ("file", "losses"),
    [
        ("chat_0.1.5.yml", ""),
        ("files_0.3.1.yml", "'Slides' (slides): tool_configurations"),
        ("agent_0.5.0.yml", ""),
    ],
)
def test_losses_of_whole_files(file, losses):
    remarks = remarks_of(dify.load((DATA / file).read_bytes()))
    assert summary([each for each in remarks if each.lossy]) == losses
    assert not [each for each in remarks if "an unknown field" in each.says]


def values_of(graph):
    return read_yaml(dify.dump(graph), "file").value


@pytest.mark.slow
def test_what_we_write_for_other_platforms_loses_nothing_here(shared_data):
    """What a writer adds of its own means there what is done here: else a file of ours would be refused here."""
    count = {"files": 0, "lossy": 0, "notes": 0}
    for path in sorted((shared_data / "chat2workflow").glob("[am]*/*.json")):
        for record in sample(json.loads(path.read_text(encoding="utf-8")), 6):
            try:
                graph = chat2workflow.load(record["workflow"] or "", record["task"])
            except InvalidError:
                continue
            if check(graph, NODE_TYPES):
                continue
            told = [*remarks_on_values(values_of(graph)), *remarks_of(coze.load(coze.dump(graph)))]
            assert [each for each in told if each.lossy] == []
            assert {each.field for each in told} <= {"model"}
            count["files"] += 1
            count["notes"] += len(told)
    print(f"recorded workflows written for Dify and Coze: {count}")
    assert count["files"] > amount(40, 250)
