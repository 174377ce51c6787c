"""Triggers of Dify: kept exactly, and the inputs that they give start a run."""

import pytest
import yaml

from operad.flows.assemble import assemble
from operad.flows.edit import SetParam, apply
from operad.flows.formats.remarks import remarks_of
from operad.flows.formats.table import FORMATS
from operad.integrations.dify.format import DIFY
from operad.integrations.dify.nodes.flow import cron_of
from operad.operators.nodes import NODE_TYPES
from operad.runtime.values.errors import InvalidError, OperadError
from operad.runtime.values.message import Job

WEBHOOK = {
    "type": "trigger-webhook",
    "title": "Hook",
    "method": "post",
    "content_type": "application/json",
    "headers": [{"name": "X-Event-Kind", "type": "string", "required": True}],
    "params": [{"name": "page", "type": "number", "required": False}],
    "body": [{"name": "order", "type": "object", "required": True}],
    "status_code": 202,
    "response_body": '{"got": true}',
    "async_mode": True,
    "timeout": 30,
    "variables": [{"variable": "_webhook_raw", "label": "raw", "value_type": "object", "required": True}],
}
SCHEDULE = {
    "type": "trigger-schedule",
    "title": "Daily",
    "mode": "visual",
    "frequency": "daily",
    "visual_config": {"time": "2:30 PM"},
    "timezone": "UTC",
}
PLUGIN = {
    "type": "trigger-plugin",
    "title": "Issue",
    "plugin_id": "langgenius/github_trigger",
    "provider_id": "langgenius/github_trigger/github_trigger",
    "event_name": "issue_opened",
    "subscription_id": "s",
    "plugin_unique_identifier": "langgenius/github_trigger:1.0@x",
    "event_parameters": {"labels": {"type": "constant", "value": ["bug"]}},
}


def flow(template, triggers, **variables):
    arguments = [{"variable": name, "value_selector": list(value)} for name, value in variables.items()]
    nodes = [
        *({"id": f"t{number}", "data": data} for number, data in enumerate(triggers)),
        {"id": "2", "data": {"type": "template-transform", "title": "T", "template": template, "variables": arguments}},
        {
            "id": "3",
            "data": {"type": "end", "title": "E", "outputs": [{"variable": "r", "value_selector": ["2", "output"]}]},
        },
    ]
    edges = [*((f"t{number}", "2") for number in range(len(triggers))), ("2", "3")]
    graph = {"nodes": nodes, "edges": [{"source": a, "sourceHandle": "source", "target": b} for a, b in edges]}
    app = {"mode": "workflow", "name": "hook"}
    return {"kind": "app", "version": "0.6.0", "app": app, "workflow": {"graph": graph}}


HOOK = flow(
    "{{ k }} {{ p }} {{ o.id }} {{ r.method }}",
    [WEBHOOK],
    k=("t0", "X_Event_Kind"),
    p=("t0", "page"),
    o=("t0", "order"),
    r=("t0", "_webhook_raw"),
)
FILES = {
    "webhook": HOOK,
    "schedule": flow("{{ t > 0 }}", [SCHEDULE], t=("sys", "timestamp")),
    "plugin": flow("{{ title }}", [PLUGIN], title=("t0", "title")),
    "several": flow("x", [SCHEDULE, PLUGIN, WEBHOOK]),
}


def loaded(root):
    return DIFY.load(yaml.safe_dump(root))


def result(root, **inputs):
    return assemble(loaded(root), NODE_TYPES).run(Job("", inputs=inputs)).outputs["r"]


@pytest.mark.parametrize("name", FILES)
def test_triggers_are_kept_exactly_and_their_workflows_have_no_issues(name):
    graph = loaded(FILES[name])
    assert DIFY.check(graph.runnable) == []
    assert [remark for remark in remarks_of(graph) if remark.lossy] == []
    assert yaml.safe_load(DIFY.dump(graph)) == FILES[name]
    through = FORMATS["operad"].load(FORMATS["operad"].dump(graph))
    assert yaml.safe_load(DIFY.dump(through)) == FILES[name]


def test_a_run_takes_what_a_webhook_gives_as_inputs_with_types():
    assert result(HOOK, X_Event_Kind="sale", page="3", order='{"id": 7}') == "sale 3 7 "
    with pytest.raises(OperadError):
        result(HOOK, X_Event_Kind="sale")
    with pytest.raises(OperadError):
        result(HOOK, X_Event_Kind="sale", order='{"id": 7}', page="many")


def test_a_schedule_gives_the_time_and_a_plugin_what_nodes_read():
    assert result(FILES["schedule"]) == "True"
    assert result(FILES["plugin"], title="Broken") == "Broken"


CRON = {**SCHEDULE, "mode": "cron", "cron_expression": "0 9 * * 1"}
WEEKLY = {**SCHEDULE, "frequency": "weekly", "visual_config": {"time": "9:00 AM", "weekdays": ["mon", "fri"]}}
MONTHLY = {**SCHEDULE, "frequency": "monthly", "visual_config": {"time": "12:05 AM", "monthly_days": [1, "last"]}}
HOURLY = {**SCHEDULE, "frequency": "hourly", "visual_config": {"on_minute": 5}}


@pytest.mark.parametrize("cron", ["0 7 * * *", "15 * * * *", "30 12 1,L * *", "0 0 * * sun", "*/5 8-18 * * mon-fri"])
@pytest.mark.parametrize("schedule", [SCHEDULE, CRON, WEEKLY, MONTHLY, HOURLY])
def test_a_schedule_is_kept_and_an_edit_of_it_is_written(schedule, cron):
    graph = loaded(flow("x", [schedule]))
    assert yaml.safe_load(DIFY.dump(graph)) == flow("x", [schedule])
    trigger = list(graph.by_id["t0"].params["trigger"])
    assert trigger[-2:] == [cron_of(schedule), "UTC"]
    changed = apply(graph, [SetParam(node="t0", path="trigger", value=[*trigger[:-2], cron, "Asia/Tokyo"])]).graph
    data = yaml.safe_load(DIFY.dump(changed))["workflow"]["graph"]["nodes"][0]["data"]
    assert (cron_of(data), data["timezone"]) == (cron, "Asia/Tokyo")
    assert loaded(yaml.safe_load(DIFY.dump(changed))).by_id["t0"].params["trigger"][-2:] == [cron, "Asia/Tokyo"]


@pytest.mark.parametrize(
    ("schedule", "said"),
    [
        ({"mode": "cron", "cron_expression": "0 25 * * *"}, "hour '25'"),
        ({"mode": "visual", "frequency": "daily", "visual_config": {"time": "soon"}}, "is missing"),
        ({**SCHEDULE, "timezone": "Europe/Berlim"}, "'Europe/Berlin'"),
    ],
)
def test_a_schedule_that_never_fires_is_an_issue(schedule, said):
    [issue] = DIFY.check(loaded(flow("x", [{**SCHEDULE, **schedule}])).runnable)
    assert (issue.where, said in issue.message) == ("t0", True)


def test_of_several_triggers_the_webhook_starts_the_run_and_the_others_are_said():
    graph = loaded(FILES["several"])
    assert {spec.id: spec.type for spec in graph.nodes if spec.id.startswith("t")} == {
        "t0": "trigger-schedule",
        "t1": "trigger-plugin",
        "t2": "start",
    }
    said = {(remark.node, remark.field) for remark in remarks_of(graph)}
    assert {("t0", "edges"), ("t1", "edges")} <= said


def test_an_edit_of_a_webhook_is_written():
    graph = loaded(HOOK)
    trigger = list(graph.by_id["t0"].params["trigger"])
    changed = apply(graph, [SetParam(node="t0", path="trigger", value=[*trigger[:4], 201, "thanks"])]).graph
    data = yaml.safe_load(DIFY.dump(changed))["workflow"]["graph"]["nodes"][0]["data"]
    assert data == {**WEBHOOK, "status_code": 201, "response_body": "thanks"}


@pytest.mark.parametrize(
    ("schedule", "cron"),
    [
        ({"mode": "cron", "cron_expression": "0 9 * * 1"}, "0 9 * * 1"),
        ({"mode": "visual", "frequency": "hourly", "visual_config": {"on_minute": 15}}, "15 * * * *"),
        ({"mode": "visual", "frequency": "daily", "visual_config": {"time": "12:05 AM"}}, "5 0 * * *"),
        (
            {"frequency": "weekly", "visual_config": {"time": "12:00 PM", "weekdays": ["mon", "fri"]}},
            "0 12 * * mon,fri",
        ),
        (
            {"frequency": "monthly", "visual_config": {"time": "1:00 AM", "monthly_days": [1, "last"]}},
            "0 1 1,L * *",
        ),
        ({"frequency": "daily", "visual_config": {"time": "soon"}}, ""),
    ],
)
def test_the_cron_expression_is_that_of_the_schedule(schedule, cron):
    assert cron_of(schedule) == cron


def test_a_knowledge_pipeline_is_refused_with_advice():
    with pytest.raises(InvalidError) as caught:
        loaded({**HOOK, "kind": "rag_pipeline"})
    (issue,) = caught.value.issues
    assert issue.code == "format"
    assert "knowledge" in issue.message


def test_a_webhook_whose_body_has_files_says_how_it_runs():
    hook = {**WEBHOOK, "content_type": "multipart/form-data", "body": [{"name": "scan", "type": "file"}]}
    said = {(each.node, each.field) for each in remarks_of(loaded(flow("x", [hook])))}
    assert ("t0", "content_type") in said


AGENT_2 = {"type": "agent", "version": "2", "agent_node_kind": "dify_agent", "agent_task": "Do it", "agent_binding": {}}
OF_PLUGIN = {"type": "acme-ocr", "title": "OCR"}


@pytest.mark.parametrize(("data", "kind"), [(AGENT_2, "dify-agent"), (OF_PLUGIN, "acme-ocr")])
def test_a_node_of_a_kind_that_does_not_run_is_kept_and_one_issue(data, kind):
    whole = flow("x", [{"type": "start", "title": "S", "variables": []}])
    graph = whole["workflow"]["graph"]
    graph["nodes"].append({"id": "9", "data": {"title": "A", **data}})
    graph["edges"].append({"source": "t0", "sourceHandle": "source", "target": "9"})
    read = loaded(whole)
    [issue] = DIFY.check(read.runnable)
    assert (issue.code, issue.where, kind in issue.message) == ("unknown-type", "9", True)
    assert not [each for each in remarks_of(read) if each.lossy]
    assert yaml.safe_load(DIFY.dump(read)) == whole


@pytest.mark.parametrize("others", [[], ["langgenius/openai:0.1@y"]])
def test_the_plugin_of_an_unknown_node_type_is_named_if_the_file_tells_it(others):
    whole = flow("x", [{"type": "start", "title": "S", "variables": []}])
    whole["workflow"]["graph"]["nodes"].append({"id": "9", "data": OF_PLUGIN})
    whole["workflow"]["graph"]["edges"].append({"source": "t0", "sourceHandle": "source", "target": "9"})
    plugins = ["acme/ocr:1.0@x", *others]
    whole["dependencies"] = [
        {"type": "marketplace", "value": {"marketplace_plugin_unique_identifier": each}} for each in plugins
    ]
    [said] = [each for each in remarks_of(loaded(whole)) if each.field == "type"]
    assert said.node == "9"
    assert "'acme/ocr:1.0'" in said.says


def test_fields_of_a_form_that_are_no_text_are_named():
    form = {
        "type": "human-input", "title": "Ask", "form_content": "{{#$output.tone#}}", "user_actions": [{"id": "ok", "title": "OK"}],
        "inputs": [{"type": "select", "output_variable_name": "tone", "option_source": {"type": "constant", "value": ["a"]}}],
    }  # fmt: skip
    whole = flow("x", [{"type": "start", "title": "S", "variables": []}])
    whole["workflow"]["graph"]["nodes"].append({"id": "9", "data": form})
    whole["workflow"]["graph"]["edges"].append({"source": "t0", "sourceHandle": "source", "target": "9"})
    assert [(each.node, each.field) for each in remarks_of(loaded(whole)) if each.lossy] == [("9", "inputs[0].type")]
