"""Apps of the modes agent-chat, chat and completion: read as a graph, written back as what they are."""

from copy import deepcopy
from pathlib import Path

import pytest
import yaml
from pydantic import JsonValue

from operad.flows.edit import AddNode, Connect, SetParam, apply
from operad.flows.formats.remarks import greeting_of, remarks_of
from operad.flows.formats.table import FORMATS
from operad.integrations.dify.format import DIFY
from operad.runtime.values.errors import InvalidError

FORM = [
    {"text-input": {"label": "Tone", "variable": "tone", "required": True, "max_length": 48}},
    {"select": {"label": "Kind", "variable": "kind", "required": False, "options": ["a", "b"], "default": "a"}},
]


def app(mode, **config):
    return {
        "version": "0.6.0",
        "kind": "app",
        "app": {"name": "helper", "mode": mode, "icon": "x", "description": "helps"},
        "dependencies": [],
        "model_config": {
            "model": {
                "provider": "langgenius/openai/openai",
                "name": "gpt-4o",
                "mode": "chat",
                "completion_params": {"temperature": 0.7, "stop": ["\n"]},
            },
            "pre_prompt": "Speak in a {{tone}} tone.",
            "prompt_type": "simple",
            "chat_prompt_config": {},
            "completion_prompt_config": {},
            "user_input_form": FORM,
            "opening_statement": "Hello!",
            "suggested_questions": ["Who are you?", ""],
            "suggested_questions_after_answer": {"enabled": False},
            "dataset_configs": {"retrieval_model": "multiple", "datasets": {"datasets": []}, "top_k": 4},
            "file_upload": {"image": {"enabled": False, "number_limits": 3}},
            "more_like_this": {"enabled": False},
            **config,
        },
    }


TOOL = {
    "enabled": True,
    "provider_type": "builtin",
    "provider_id": "time",
    "tool_name": "current_time",
    "tool_label": "Time",
    "tool_parameters": {},
}
OFF = {**TOOL, "tool_name": "off", "enabled": False}
APPS = {
    "agent": app(
        "agent-chat", agent_mode={"enabled": True, "strategy": "react", "max_iteration": 7, "tools": [TOOL, OFF]}
    ),
    "chat": app("chat"),
    "chat that is an agent": app("chat", agent_mode={"enabled": True, "strategy": "function_call", "tools": [TOOL]}),
    "completion": app("completion"),
    "messages": app(
        "chat",
        prompt_type="advanced",
        chat_prompt_config={
            "prompt": [{"role": "system", "text": "{{tone}}"}, {"role": "user", "text": "{{#query#}}"}]
        },
    ),
    "one text": app(
        "completion",
        prompt_type="advanced",
        completion_prompt_config={
            "prompt": {"text": "Write {{tone}}. {{#query#}}"},
            "conversation_histories_role": {"user_prefix": "Human", "assistant_prefix": "AI"},
        },
    ),
}


def text_of(root):
    return yaml.safe_dump(root, allow_unicode=True).encode()


def written(graph, old=None):
    return yaml.safe_load(DIFY.dump_keeping_text(graph, old))


@pytest.mark.parametrize("name", APPS)
def test_an_app_is_written_back_with_equal_values(name):
    graph = DIFY.load(text_of(APPS[name]))
    assert DIFY.check(graph) == []
    assert written(graph) == APPS[name]
    assert written(graph, text_of(APPS[name])) == APPS[name]
    through = FORMATS["operad"].load(FORMATS["operad"].dump(graph))
    assert written(through) == APPS[name]
    assert DIFY.losses(graph) == []


@pytest.mark.parametrize(
    ("name", "param", "value", "path", "new"),
    [
        ("agent", "instruction", "Be {{#start.tone#}}.", ["pre_prompt"], "Be {{tone}}."),
        ("agent", "rounds", 3, ["agent_mode", "max_iteration"], 3),
        ("agent", "strategy", "function_calling", ["agent_mode", "strategy"], "function_call"),
        ("agent", "model_name", "o3", ["model", "name"], "o3"),
        ("chat", "model_name", "o3", ["model", "name"], "o3"),
        ("chat", "system", "Be {{#start.tone#}}.", ["pre_prompt"], "Be {{tone}}."),
        ("completion", "user", "Sing {{#start.tone#}}.", ["pre_prompt"], "Sing {{tone}}."),
        ("messages", "system", "Sing.", ["chat_prompt_config", "prompt", 0, "text"], "Sing."),
        ("one text", "user", "Sing.", ["completion_prompt_config", "prompt", "text"], "Sing."),
    ],
)
def test_an_edit_of_an_app_changes_its_place_in_the_configuration_only(name, param, value, path, new):
    before = text_of(APPS[name])
    graph = apply(DIFY.load(before), [SetParam(node="model", path=param, value=value)]).graph
    expected = deepcopy(APPS[name])
    place = expected["model_config"]
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = new
    assert written(graph, before) == expected
    assert DIFY.losses(graph) == []


def test_tools_of_an_agent_are_changed_by_name():
    before = text_of(APPS["agent"])
    tools: JsonValue = ["search", "current_time"]
    graph = apply(DIFY.load(before), [SetParam(node="model", path="tools", value=tools)]).graph
    changed = written(graph, before)["model_config"]["agent_mode"]["tools"]
    assert [each["tool_name"] for each in changed] == ["search", "current_time", "off"]
    assert changed[1:] == [TOOL, OFF]


def test_an_input_that_is_added_leaves_the_others_as_they_are():
    before = text_of(APPS["chat"])
    graph = DIFY.load(before)
    variables = [*graph.by_id["start"].params["variables"], ["place", "string"]]
    graph = apply(graph, [SetParam(node="start", path="variables", value=variables)]).graph
    form = written(graph, before)["model_config"]["user_input_form"]
    assert form[:2] == FORM
    assert form[2]["paragraph"]["variable"] == "place"


def test_a_workflow_that_no_configuration_holds_is_a_listed_loss_and_keeps_its_opening():
    before = text_of(APPS["agent"])
    operations = [AddNode(id="more", type="template-transform", params={"template": "x", "variables": []})]
    graph = apply(DIFY.load(before), [*operations, Connect(source="start", target="more")]).graph
    assert ("loss", "app") in [(issue.code, issue.where) for issue in DIFY.losses(graph)]
    root = written(graph, before)
    assert root["app"]["mode"] == "advanced-chat"
    assert root["workflow"]["features"]["opening_statement"] == "Hello!"
    assert "model_config" not in root


def test_the_opening_and_the_suggested_questions_are_those_of_the_app():
    assert greeting_of(DIFY.load(text_of(APPS["agent"]))) == ("Hello!", ("Who are you?",))


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"more_like_this": {"enabled": True}}, ("model_config.more_like_this", False)),
        ({"annotation_reply": {"enabled": True}}, ("model_config.annotation_reply", True)),
        ({"new_of_tomorrow": {"a": 1}}, ("model_config.new_of_tomorrow", True)),
    ],
)
def test_settings_of_an_app_that_do_nothing_here_are_said(config, expected):
    said = [(each.field, each.lossy) for each in remarks_of(DIFY.load(text_of(app("chat", **config))))]
    assert expected in said


def test_a_chat_that_takes_files_shows_them_to_its_model():
    given = app("chat", file_upload={"image": {"enabled": True, "detail": "high"}})
    graph = DIFY.load(text_of(given))
    assert graph.by_id["model"].params["files"] == [["sys.files", "start"]]
    assert written(graph) == given


def test_knowledge_among_the_tools_of_an_older_agent_is_refused_and_left_out_if_it_is_off():
    def written(is_on):
        dataset = {"dataset": {"enabled": is_on, "id": "d1"}}
        mode = {"enabled": True, "strategy": "react", "tools": [TOOL, dataset]}
        return yaml.safe_dump(app("agent-chat", agent_mode=mode)).encode()

    with pytest.raises(InvalidError) as error:
        DIFY.load(written(True))
    assert [(each.code, "agent_mode.tools" in each.message) for each in error.value.issues] == [("format", True)]
    graph = DIFY.load(written(False))
    assert DIFY.check(graph) == []
    assert yaml.safe_load(DIFY.dump(graph)) == yaml.safe_load(written(False))


def test_an_input_of_an_unknown_kind_is_refused_with_its_place_and_a_near_name():
    form = [FORM[0], {"text_input": {"label": "Name", "variable": "name"}}]
    with pytest.raises(InvalidError) as error:
        DIFY.load(text_of(app("chat", user_input_form=form)))
    [issue] = error.value.issues
    assert issue.code == "format"
    assert issue.message.startswith("model_config.user_input_form[1]: ")
    assert "'text-input'" in issue.message


SAID_NOTHING = {key: value for key, value in TOOL.items() if key != "enabled"}
SHORT = {"enabled": True, "provider_id": "time", "tool_name": "current_time"}


@pytest.mark.parametrize(("tool", "names"), [(TOOL, ["current_time"]), (SAID_NOTHING, []), (OFF, []), (SHORT, [])])
def test_a_tool_of_an_app_is_one_that_is_on_and_has_four_keys_as_in_dify(tool, names):
    given = yaml.safe_dump(
        app("agent-chat", agent_mode={"enabled": True, "strategy": "react", "tools": [tool]})
    ).encode()
    graph = DIFY.load(given)
    assert graph.by_id["model"].params["tools"] == names
    assert yaml.safe_load(DIFY.dump(graph)) == yaml.safe_load(given)


@pytest.mark.parametrize(("tool", "names"), [({"enabled": True}, ["draw"]), ({}, []), ({"enabled": False}, [])])
def test_a_tool_of_an_agent_node_that_does_not_say_that_it_is_on_is_off_as_in_dify(tool, names):
    file = Path(__file__).parents[2] / "data" / "dify_cases" / "agent-react.yml"
    whole = yaml.safe_load(file.read_text("utf-8"))
    agent = next(each for each in whole["workflow"]["graph"]["nodes"] if each["data"]["type"] == "agent")
    agent["data"]["agent_parameters"]["tools"]["value"] = [{"tool_name": "draw", **tool}]
    assert DIFY.load(yaml.safe_dump(whole).encode()).by_id[agent["id"]].params["tools"] == names
