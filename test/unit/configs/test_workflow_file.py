"""`load_workflow`: a file of any format that runs, as a workflow in Python."""

import json

import pytest

from operad import InputError, InvalidError, Workflow, load_workflow
from operad.configs.capabilities import UntrustedError
from operad.flows.formats.fields import LossyError
from operad.operators import Services
from operad.runtime import Job, Task
from operad.runtime.testing import Say, ScriptedModel, ScriptedReasoner

NODES = """
workflow: greet
nodes:
  1: {type: start, variables: {name: string}}
  2: {type: llm, after: 1, system: '', user: 'Greet {{#1.name#}}.'}
  3: {type: end, after: 2, outputs: {text: 2.text}}
"""
EXPERTS = """
app: {name: Letters}
memory: {tokens: 1234}
experts:
  - profile: {name: Writer}
    workflow: [[{name: write, instruction: Write a letter.}]]
  - profile: {name: Reader}
    workflow: [[{name: read, instruction: Read the letter.}]]
"""
DIFY = """
app: {mode: workflow, name: Letters}
kind: app
version: 0.3.0
workflow:
  graph:
    nodes:
      - {id: '1', data: {type: start, title: Start, variables: []}}
      - {id: '2', data: {type: http-request, title: Fetch, method: get, url: 'https://example.org', ssl_verify: false,
         authorization: {type: no-auth}, headers: '', params: '', body: {type: none, data: []}}}
      - {id: '3', data: {type: end, title: End, outputs: [{variable: text, value_selector: ['2', body]}]}}
    edges:
      - {source: '1', target: '2', sourceHandle: source}
      - {source: '2', target: '3', sourceHandle: source}
"""


@pytest.fixture
def write(tmp_path):
    def write(text, name="file.yaml"):
        (tmp_path / name).write_text(text, encoding="utf-8")
        return tmp_path / name

    return write


def test_a_node_workflow_runs_with_the_given_model(write):
    with ScriptedModel([Say("Hello, Ada.")]) as endpoint:
        flow = load_workflow(write(NODES), model=endpoint.model)
        assert flow.run({"name": "Ada"}).output == {"text": "Hello, Ada."}


def test_an_expert_is_chosen_by_name_and_keeps_the_memory_of_its_file(write):
    flow = load_workflow(write(EXPERTS), expert="Reader", model=ScriptedReasoner(["Dear Ada"]))
    assert [operator.get_id() for operator in flow.get_operators()] == ["read"]
    assert flow.memory == 1234
    assert flow.run("x").text == "Dear Ada"


@pytest.mark.parametrize(
    ("named", "has_model"), [("", False), ("model: {name: m, base_url: 'http://localhost:1/v1'}\n", True)]
)
def test_only_a_file_that_names_a_model_gives_it_to_the_workflow(write, named, has_model):
    flow = load_workflow(
        write(EXPERTS + named), expert="Writer", trust=True
    )  # without a model, a nested workflow uses the outer one
    assert (flow.model is not None) is has_model
    scripted = ScriptedReasoner(["Dear Ada"])
    assert load_workflow(write(EXPERTS + named), expert="Writer", model=scripted, trust=True).model is scripted


TEAM = EXPERTS + "leader: {profile: {name: Editor}}\n"


def of_a_team(task):
    """Answer a leader's split, or the instruction of its expert."""
    part = {"id": "1", "goal": "Write.", "context": "", "completion_criteria": "", "dependencies": []}
    split = {"sub_jobs": [{**part, "assigned_expert": "Writer"}]}
    return "Dear Ada" if task.instruction == "Write a letter." else json.dumps(split)


def test_all_experts_of_a_team_use_the_given_reasoner(write):
    flow = load_workflow(write(TEAM), model=ScriptedReasoner(of_a_team))
    assert flow.run("A letter to Ada, please.").text == "Dear Ada"


def with_model(flow, model):
    flow.model = model
    return flow


@pytest.mark.parametrize("settings", ["", "reasoner: {max_rounds: 3}\n"])
@pytest.mark.parametrize(
    "run",
    [
        lambda flow, model: flow.run("x", model=model),
        lambda flow, model: with_model(flow, model).run("x"),
        lambda flow, model: flow.chat(model=model).send("x"),
    ],
)
def test_experts_without_a_model_use_the_model_of_the_run(write, run, settings):
    flow = load_workflow(write(TEAM + settings))
    assert run(flow, ScriptedReasoner(of_a_team)).text == "Dear Ada"


def test_the_model_of_a_run_replaces_the_one_that_the_team_was_loaded_with(write):
    flow = load_workflow(write(TEAM), model=ScriptedReasoner([]))
    assert flow.run("x", model=ScriptedReasoner(of_a_team)).text == "Dear Ada"


def test_a_team_without_a_model_uses_the_one_of_the_workflow_that_contains_it(write):
    assert Workflow(load_workflow(write(TEAM)), model=ScriptedReasoner(of_a_team)).run("x").text == "Dear Ada"


def test_experts_keep_the_model_that_the_file_names_for_them(write):
    with ScriptedModel([Say("Dear Tom")]) as own:
        model = f"\n    model: {{name: m, base_url: '{own.model.base_url}'}}"
        file = write(TEAM.replace("{name: Writer}", "{name: Writer}" + model))
        assert load_workflow(file, trust=True).run("x", model=ScriptedReasoner(of_a_team)).text == "Dear Tom"


@pytest.mark.parametrize("named_for", ["leader", "nobody"])
def test_without_a_model_of_the_run_experts_use_the_model_of_the_environment(write, monkeypatch, named_for):
    split = of_a_team(Task(job=Job("x"), instruction=""))
    with ScriptedModel([Say("Dear Eve")] if named_for == "leader" else [Say(split), Say("Dear Eve")]) as of_environment:
        monkeypatch.setenv("OPENAI_BASE_URL", of_environment.model.base_url)
        monkeypatch.setenv("OPERAD_MODEL", "m")
        with ScriptedModel([Say(split)] if named_for == "leader" else []) as of_leader:
            named = f", model: {{name: big, base_url: '{of_leader.model.base_url}'}}" if named_for == "leader" else ""
            file = write(TEAM.replace("{name: Editor}", "{name: Editor}" + named))
            assert load_workflow(file, trust=True).run("x").text == "Dear Eve"


def test_an_expert_keeps_the_settings_of_its_reasoner_with_the_model_of_the_run(write):
    settings = "{name: Writer}\n    reasoner: {type: DUAL}"
    file = write(TEAM.replace("{name: Writer}", settings))
    steps = [
        Say(of_a_team(Task(job=Job("x"), instruction=""))),
        Say('{"instruction": "", "finished": true}'),
        Say("Dear Ada"),
    ]
    with ScriptedModel(steps) as endpoint:
        assert load_workflow(file).run("x", model=endpoint.model).text == "Dear Ada"


def test_a_team_without_any_model_is_refused_before_the_run(write, monkeypatch):
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPERAD_MODEL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(InputError, match=r"^no model is configured"):
        load_workflow(write(TEAM)).run("x")


def test_a_configuration_that_comes_with_operad_is_loaded_by_name():
    assert load_workflow("designer").get_operators()


def test_an_imported_workflow_that_runs_differently_is_refused_unless_that_is_accepted(write):
    file = write(DIFY, "letters.yml")
    with pytest.raises(LossyError, match="ssl_verify"):
        load_workflow(file)
    assert len(load_workflow(file, lossy=True).get_operators()) >= 3


def test_code_that_a_file_names_runs_only_when_trusted(write):
    write("def search(query: str) -> str: ...\n", "my_tools.py")
    file = write(EXPERTS + "tools: [my_tools.search]\n")
    with pytest.raises(UntrustedError, match=r"my_tools.py .search."):
        load_workflow(file, expert="Writer")


@pytest.mark.parametrize(
    ("text", "arguments", "told"),
    [
        (NODES, {"expert": "Reader"}, "has no experts; leave the expert 'Reader' out"),
        (NODES, {"model": 5}, "expected a model's name, a Model or a reasoner; got 5"),
        (EXPERTS, {}, "configures 2 experts; choose one: Writer, Reader"),
        (EXPERTS, {"expert": "Reder"}, "did you mean 'Reader'"),
        (EXPERTS, {"expert": 5}, "expert: expected a name, got 5"),
        (EXPERTS, {"services": Services()}, "write `services: …` in it"),
    ],
)
def test_an_argument_that_does_not_apply_to_the_file_is_refused(write, text, arguments, told):
    with pytest.raises(InputError, match=told):
        load_workflow(write(text), **arguments)


def test_a_file_that_is_no_workflow_is_refused(write, tmp_path):
    with pytest.raises(InvalidError, match="'nam' of '1'"):
        load_workflow(write(NODES.replace("1.name#", "1.nam#")))
    with pytest.raises(InputError, match="is a Python file"):
        load_workflow(write("print('hello')", "flow.py"))
    with pytest.raises(InputError, match="no such file"):
        load_workflow(tmp_path / "nowhere.yaml")
    with pytest.raises(InputError, match=r"expected the path of a file, got 5"):
        load_workflow(5)  # pyright: ignore[reportArgumentType]
