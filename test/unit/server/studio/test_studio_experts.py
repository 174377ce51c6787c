"""YAML files of experts in the studio."""

import pytest
from studios import EXPERTS


@pytest.fixture
def studio(serve):
    client = serve()
    (client.folder / "facts.yaml").write_text(EXPERTS)
    return client


def test_experts_open_as_a_graph_with_evaluators_and_rounds(studio):
    document = studio.open("facts.yaml")
    assert (document["kind"], document["format"], document["readonly"]) == ("experts", "experts", None)
    assert [(each["id"], each["type"], each["parent"]) for each in document["nodes"]] == [
        ("Fact checker", "expert", None),
        ("facts", "operator", "Fact checker"),
        ("check", "operator", "Fact checker"),
        ("judge", "evaluator", "Fact checker"),
    ]
    assert [(each["source"], each["target"]) for each in document["edges"]] == [("facts", "check"), ("check", "judge")]
    assert document["nodes"][0]["params"]["max_rounds"] == 2
    assert document["nodes"][2]["params"] == {"instruction": "Check each claim. Say what is right."}
    assert document["schemas"]["operator"]["properties"]["instruction"]["x-editor"] == "prompt"


def test_fields_are_set_in_the_text_and_all_else_stays(studio):
    document = studio.open("facts.yaml")
    document = studio.apply(
        document,
        {"op": "set", "node": "facts", "path": "instruction", "value": "List them: all."},
        {"op": "set", "node": "check", "path": "instruction", "value": "Check.\nSay so."},
        {"op": "set", "node": "judge", "path": "threshold", "value": 0.7},
        {"op": "set", "node": "Fact checker", "path": "max_rounds", "value": 3},
        {"op": "set", "node": "Fact checker", "path": "profile.desc", "value": "Checks."},
    )
    assert (studio.folder / "facts.yaml").read_text() == (
        EXPERTS.replace("List what the text claims. #", "'List them: all.' #")
        .replace(">-\n      Check each claim.\n      Say what is right.\n", "|-\n      Check.\n      Say so.\n")
        .replace("- &judge\n    ", "- &judge\n    threshold: 0.7\n    ")
        .replace("max_rounds: 2", "max_rounds: 3")
        .replace("desc: Checks claims.", "desc: Checks.")
    )
    assert document["nodes"][2]["params"]["instruction"] == "Check.\nSay so."
    undone = studio.told("undo", {"path": "facts.yaml", "version": document["version"]})
    assert (studio.folder / "facts.yaml").read_text() == EXPERTS
    assert undone["undo"] is False


TOOLED = """\
tools: [{name: search, module_path: my_tools}, {name: count, module_path: my_tools}]
actions: [{name: look_up, tools: [search]}]
operators:
  - &facts {instruction: List the claims., tools: [search]}
  - name: check
    instruction: Check each claim.
  - &style {instruction: Mend the style.}
  - &judge {instruction: Every sentence rests on a claim.}
  - &strict {instruction: Every claim has a source.}
experts:
  - profile: {name: Checker}
    workflow: [[*facts, check]]
    evaluator: *judge # who judges
"""


def test_tools_chains_and_the_evaluator_are_chosen_by_name(studio):
    (studio.folder / "my_tools.py").write_text("def search(q: str) -> str:\n    return q\n\n\ncount = search\n")
    (studio.folder / "tooled.yaml").write_text(TOOLED)
    document = studio.open("tooled.yaml")
    params = {each["id"]: each["params"] for each in document["nodes"]}
    assert params["Checker"]["workflow"] == [["facts", "check"]]
    assert params["Checker"]["evaluator"] == ["judge"]
    assert params["facts"]["tools"] == ["search"]
    operator, expert = document["schemas"]["operator"]["properties"], document["schemas"]["expert"]["properties"]
    assert (operator["tools"]["items"], operator["actions"]["items"]) == (
        {"enum": ["search", "count"]},
        {"enum": ["look_up"]},
    )
    judges = {"title": "Evaluator", "enum": ["style", "strict", "judge"]}  # an operator of a chain would be refused
    assert expert["evaluator"] == {
        "type": "array",
        "items": judges,
        "title": "Evaluators",
        "default": [],
        "uniqueItems": True,
    }
    document = studio.apply(
        document,
        {"op": "set", "node": "facts", "path": "tools", "value": ["count", "search"]},
        {"op": "set", "node": "check", "path": "actions", "value": ["look_up"]},
        {"op": "set", "node": "Checker", "path": "workflow", "value": [["facts", "check", "style"]]},
        {"op": "set", "node": "Checker", "path": "evaluator", "value": ["strict"]},
    )
    assert (studio.folder / "tooled.yaml").read_text() == (
        TOOLED.replace(
            "tools: [search]}\n  - name: check\n",
            "tools: [count, search]}\n  - actions: [look_up]\n    name: check\n",
        )
        .replace("[[*facts, check]]", "[[*facts, check, style]]")
        .replace("*judge #", "strict #")
    )
    edges = [(each["source"], each["target"]) for each in document["edges"]]
    assert edges == [("facts", "check"), ("check", "style"), ("style", "strict")]
    said = {"path": "tooled.yaml", "version": document["version"]}
    wrong = {"op": "set", "node": "Checker", "path": "workflow", "value": [["facts", "chekc"]]}
    told = studio.refused("apply", {**said, "operations": [wrong]}, 422)
    assert "did you mean 'check'?" in told["issues"][0]["what"]


def test_operators_and_evaluators_that_are_written_in_place_are_chosen_by_name(studio):
    (studio.folder / "inline.yaml").write_text(
        "operators: [&one {instruction: Do.}]\nexperts:\n- profile: {name: E}\n  workflow: [[*one, {instruction: Then.}]]\n"
        "  evaluator: {instruction: Judge.}\n"
    )
    document = studio.open("inline.yaml")
    expert = document["schemas"]["expert"]["properties"]
    assert expert["evaluator"]["items"]["enum"] == ["evaluator"]
    assert document["nodes"][0]["params"]["evaluator"] == ["evaluator"]
    assert document["nodes"][0]["params"]["workflow"] == [["one", "step-3"]]
    assert expert["workflow"]["items"]["items"]["enum"] == ["one", "step-3"]


def test_a_run_tells_its_rounds_whom_they_blamed_and_what_was_said_before(serve):
    from operad.runtime.testing import Say, ScriptedModel

    bad = '{"status": "EXECUTION_ERROR", "evaluation": "No figure.", "lesson": "Give the figure.", "blame": ["check"], "score": 2}'
    said = [
        '{"claims": ["Air."]}',
        "It has none.",
        bad,
        "It has 0%.",
        '{"status": "SUCCESS", "evaluation": "Good.", "lesson": "", "blame": [], "score": 9}',
    ]
    with ScriptedModel([Say(each) for each in said]) as endpoint:
        studio = serve(model=endpoint.model)
        (studio.folder / "facts.yaml").write_text(EXPERTS)
        outputs, last = studio.run("facts.yaml", inputs={"job": "The moon has air."})
    assert outputs["check"] == {"text": "It has 0%."}
    assert last["before"]["check"] == {"text": "It has none."}
    assert "facts" not in last["before"]
    assert [(each["operators"], each["status"], each["lesson"], each["blame"]) for each in last["rounds"]] == [
        (["facts", "check"], "EXECUTION_ERROR", "Give the figure.", ["check"]),
        (["check"], "SUCCESS", "", []),
    ]
    assert last["judges"] == ["judge"]


def test_a_value_that_is_none_is_refused_with_the_reason(studio):
    document = studio.open("facts.yaml")
    said = {"path": "facts.yaml", "version": document["version"]}
    told = studio.refused(
        "apply", {**said, "operations": [{"op": "set", "node": "facts", "path": "threshold", "value": 7}]}, 422
    )
    assert "threshold" in told["issues"][0]["where"] + told["issues"][0]["what"]
    assert (studio.folder / "facts.yaml").read_text() == EXPERTS


def test_operators_of_several_experts_keep_their_ids_where_these_are_unique(studio):
    second = """\
  - profile: {name: Writer}
    workflow:
      - [*check, {instruction: Write., name: write}]
leader: {}
"""
    (studio.folder / "two.yaml").write_text(EXPERTS + second)
    document = studio.open("two.yaml")
    assert [(each["id"], each["parent"], each["title"]) for each in document["nodes"]] == [
        ("leader", None, "Leader"),
        ("Fact checker", None, "Fact checker"),
        ("facts", "Fact checker", "facts"),
        ("Fact checker/check", "Fact checker", "check"),
        ("judge", "Fact checker", "judge"),
        ("Writer", None, "Writer"),
        ("Writer/check", "Writer", "check"),
        ("write", "Writer", "write"),
    ]
    assert ["leader", "Writer"] in [[each["source"], each["target"]] for each in document["edges"]]


def test_experts_run_with_a_job(serve):
    from operad.runtime.testing import Say, ScriptedModel

    with ScriptedModel([Say('{"claims": ["Air."]}'), Say("It has none.")]) as endpoint:
        studio = serve(model=endpoint.model)
        text = EXPERTS.replace("    evaluator: *judge\n", "")
        (studio.folder / "facts.yaml").write_text(text)
        outputs, last = studio.run("facts.yaml", inputs={"job": "The moon has air."})
    assert outputs["facts"] == {"claims": ["Air."]}
    assert outputs["check"] == {"text": "It has none."}
    assert (last["ended"], last["error"]) == (True, None)


def test_code_of_experts_that_is_not_trusted_does_not_run(studio):
    (studio.folder / "mine.py").write_text(
        "from operad.operators import Operator\n\n\nclass Op(Operator):\n    pass\n\n\nraise SystemExit('ran')\n"
    )
    (studio.folder / "code.yaml").write_text(EXPERTS.replace("short\n", "short\n    class: mine.Op\n"))
    assert len(studio.open("code.yaml")["nodes"]) == 4
    told = studio.refused("run", {"path": "code.yaml", "inputs": {"job": "x"}}, 400)
    assert told["error"] == (
        f"{studio.folder / 'code.yaml'} is not trusted. It\n  runs mine.py (Op)\nread the file, then: operad trust {studio.folder / 'code.yaml'}"
    )
