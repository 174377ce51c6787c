import sys
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest

from operad.configs import load
from operad.evaluators import Evaluator
from operad.operators import Operator
from operad.runtime import BuiltinWorkflow, DbgptWorkflow
from operad.runtime.errors import InputError, InvalidError
from operad.runtime.reasoner import DualModelReasoner, MonoModelReasoner
from operad.runtime.testing import ScriptedReasoner

MINIMAL = """
operators:
  - &greet
    instruction: Greet.
experts:
  - profile: {name: Greeter}
    workflow: [[*greet]]
"""


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
    assert isinstance(expert.workflow, DbgptWorkflow)
    assert isinstance(expert.reasoner, MonoModelReasoner)
    assert expert.workflow.max_rounds == 3
    assert [operator.get_id() for operator in expert.workflow.get_operators()] == ["greet"]


def test_platform_reasoner_and_rounds_are_chosen_in_the_file(write):
    text = MINIMAL + "    max_rounds: 5\nplugin: {workflow_platform: BUILTIN}\nreasoner: {type: DUAL}\n"
    expert = load(write(text)).expert()
    assert isinstance(expert.workflow, BuiltinWorkflow)
    assert isinstance(expert.reasoner, DualModelReasoner)
    assert expert.workflow.max_rounds == 5


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
    assert expert.workflow.graph().before == {"a": (), "b": ("a",), "d": ("b", "c"), "c": ("a",)}
    message = await expert.workflow.aexecute(job(), ScriptedReasoner(["1", "2", "3", "4"]))
    assert message.scratchpad == "4"


def job():
    from operad.runtime import Job

    return Job(goal="test")


def test_the_evaluator_may_be_anchored_named_or_written_in_place(write):
    for evaluator in ("*greet", "greet", "{instruction: Judge.}"):
        expert = load(
            write(
                MINIMAL.replace("Greet.", "Greet.\n  - &judge {instruction: Judge.}")
                + f"    evaluator: {evaluator.replace('greet', 'judge')}\n"
            )
        ).expert()
        assert isinstance(expert.workflow.graph().evaluator, Evaluator)


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
    assert loud.config.actions[0].tools[0].name == "search"
    assert configuration.expert().workflow.execute(job(), ScriptedReasoner([])).scratchpad == "test!!!"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "instruction",
            "instrution",
            [
                ("missing-key", ":3 operators[0].instruction", "this key is missing"),
                (
                    "unknown-key",
                    ":4 operators[0].instrution",
                    "unknown key (did you mean 'instruction'?); known: actions, "
                    "class, examples, hops, instruction, name, output_schema, params, threshold, tools",
                ),
            ],
        ),
        (
            "[[*greet]]",
            "[[gret]]",
            [
                (
                    "unknown-operator",
                    ":7 experts[0].workflow[0][0]",
                    "no operator is called 'gret' (did you mean 'greet'?)",
                ),
            ],
        ),
        (
            "Greet.",
            "''",
            [
                (
                    "value",
                    ":4 operators[0].instruction",
                    "the instruction is empty: say what the operator is to do",
                ),
            ],
        ),
        (
            "[[*greet]]",
            "[[*greet, {name: b, instruction: B.}], [b, *greet]]",
            [
                ("unknown-operator", ":7 experts[0].workflow[1][0]", "no operator is called 'b'"),
            ],
        ),
        (
            "[[*greet]]",
            "[]",
            [
                ("no-operators", ":7 experts[0].workflow", "add at least one operator"),
            ],
        ),
        (
            "{name: Greeter}",
            "{nam: Greeter}",
            [
                ("missing-key", ":6 experts[0].profile.name", "this key is missing"),
                ("unknown-key", ":6 experts[0].profile.nam", "unknown key (did you mean 'name'?); known: desc, name"),
            ],
        ),
        (
            "    workflow",
            "    max_rounds: 0\n    workflow",
            [
                ("value", ":7 experts[0].max_rounds", "Input should be greater than or equal to 1, not 0"),
            ],
        ),
    ],
)
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
        "each of these waits for the one before it: a → b → a",
        "each of these waits for the one before it: b → a → b",
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


def test_a_module_hidden_by_another_of_its_name_is_an_error(tmp_path):
    text = MINIMAL + "tools: [{name: search, module_path: twin_tools}]\n"
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "twin_tools.py").write_text("def search(query: str) -> str:\n    return query\n")
        (tmp_path / folder / "expert.yaml").write_text(text)
    load(tmp_path / "one" / "expert.yaml")
    [(code, _, message)] = issues(tmp_path / "two" / "expert.yaml")
    assert code == "tool-module"
    assert "hidden by" in message
    assert str(tmp_path / "one") in message


def test_a_module_that_exits_is_an_error(write, tmp_path):
    (tmp_path / "leaving_tools.py").write_text("import sys\nsys.exit(0)\n")
    [(code, _, message)] = issues(write(MINIMAL + "tools: [{name: search, module_path: leaving_tools}]\n"))
    assert code == "tool-module"
    assert "SystemExit" in message


def test_two_tools_of_one_name_are_an_error(write):
    tool = "{name: getcwd, module_path: os}"
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
            "the type 'REMOTE' is none of 'name', 'LOCAL_TOOL', 'MCP'",
        ),
    ],
)
def test_a_value_of_another_shape_is_said_in_plain_words(write, old, new, message):
    assert [found for _, _, found in issues(write(MINIMAL.replace(old, new)))] == [message]


@pytest.mark.parametrize("experts", ["5", "true", "[1]", "{a: b}"])
def test_experts_of_another_shape_are_an_error(write, experts):
    assert {code for code, _, _ in issues(write(f"experts: {experts}\n"))} <= {"value", "missing-key", "unknown-key"}


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
    assert load("release_credits").expert().profile.name == "Release credits"


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
    import yaml

    file = shared_data / "chat2graph" / f"{name}.yml"
    local = [tool["name"] for tool in yaml.safe_load(file.read_text())["tools"] if tool.get("type") != "MCP"]
    found = issues(file)
    assert {code for code, _, _ in found} == {"tool-module"}
    assert len(found) == len(set(local))


@pytest.mark.parametrize("name", CHAT2GRAPH)
def test_chat2graphs_own_files_give_all_their_experts_once_their_modules_exist(shared_data, name, their_modules):
    import yaml

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
