"""Instructions with values in YAML: places of their issues, functions that write them, and imported files."""

from typing import Any

import pytest

from operad.configs import load
from operad.configs.capabilities import UntrustedError
from operad.configs.loader import preview
from operad.runtime import InvalidError
from operad.runtime.testing import ScriptedReasoner

STEPS = '''
def reply(facts: str, doubts: str) -> str:
    """Reply to the letter."""
    return f"Reply with {facts}, not {{facts}}."


def misspelt(fcts, doubts) -> str:
    return "x"
'''

FILE = """operators:
  - &facts {instruction: List facts., output: {claims: [string]}}
  - &doubts {instruction: List doubts.}
  - &write
    instruction: Write from {fcts} in {language}.
  - &each
    map: {over: facts.claims}
    instruction: Check {itm} of {facts.clams}.
  - &inner
    workflow:
      - - name: one
          instruction: Use {dubts}.
        - name: two
          instruction: Use {on}.
experts:
  - profile: {name: A}
    workflow: [[*facts, *write], [*facts, *each], [*doubts, *inner]]
    evaluator:
      instruction: It rests on {fats}.
"""


@pytest.fixture
def write(tmp_path):
    (tmp_path / "steps.py").write_text(STEPS, encoding="utf-8")

    def write(text):
        (tmp_path / "expert.yaml").write_text(text, encoding="utf-8")
        return tmp_path / "expert.yaml"

    return write


def issues(file, opened=preview):
    with pytest.raises(InvalidError) as caught:
        opened(file)
    return [(i.code, i.where.removeprefix(str(file)), i.message.partition(";")[0]) for i in caught.value.issues]


def test_names_that_name_nothing_are_issues_at_their_places(write):
    assert [(code, where, text.removeprefix("its instruction has ")) for code, where, text in issues(write(FILE))] == [
        (
            "unknown-name",
            ":5 operators[2].instruction",
            "{fcts}: no operator before it is 'fcts' (did you mean 'facts'?)",
        ),
        ("unknown-name", ":8 operators[3].instruction", "{itm}: no operator before it is 'itm' (did you mean 'item'?)"),
        (
            "unknown-output",
            ":8 operators[3].instruction",
            "{facts.clams}: 'facts' has no 'clams' (did you mean 'claims'?)",
        ),
        (
            "unknown-name",
            ":12 operators[4].workflow[0][0].instruction",
            "{dubts}: no operator before it is 'dubts' (did you mean 'doubts'?)",
        ),
        (
            "unknown-name",
            ":14 operators[4].workflow[0][1].instruction",
            "{on}: no operator before it is 'on' (did you mean 'one'?)",
        ),
        (
            "unknown-name",
            ":19 experts[0].evaluator.instruction",
            "{fats}: no operator before it is 'fats' (did you mean 'facts'?)",
        ),
    ]


def test_a_file_names_inputs_and_operators(write):
    file = write(
        "operators:\n  - &facts {instruction: List facts.}\n  - &write\n    instruction: Write {facts} in {language}.\n"
        "experts: [{profile: {name: A}, workflow: [[*facts, *write]]}]\n"
    )
    workflow = load(file).expert().workflow
    with ScriptedReasoner(["Moon", "text"]) as reasoner:
        workflow.run({"language": "German"}, reasoner)
    assert [task.instruction for task in reasoner.tasks] == ["List facts.", "Write Moon in German."]
    with pytest.raises(
        InvalidError, match=r"write: its instruction has \{language\}: no operator before it and no input"
    ):
        workflow.run({"langage": "German"}, ScriptedReasoner([]))


FUNCTION = """operators:
  - &facts {instruction: List facts.}
  - &doubts {instruction: List doubts.}
  - &reply
    written_by: steps.reply
experts: [{profile: {name: A}, workflow: [[*facts, *reply], [*doubts, *reply]]}]
"""


def test_a_function_writes_the_instruction_of_an_operator(write):
    workflow = load(write(FUNCTION), trust=True).expert().workflow
    operator: Any = workflow.get_operator("reply")
    assert operator.instruction == "Reply to the letter."
    with ScriptedReasoner({"facts": "F", "doubts": "D", "reply": "R"}) as reasoner:
        assert workflow.run("go", reasoner).text == "R"
    assert reasoner.tasks[-1].instruction == "Reply with F, not {facts}."


def test_a_file_with_a_function_needs_trust(write):
    capabilities = preview(write(FUNCTION)).capabilities
    assert [(each.kind, each.what, each.where) for each in capabilities.each] == [("code", "reply", "steps.py")]
    with pytest.raises(UntrustedError):
        load(write(FUNCTION))


@pytest.mark.parametrize("opened", [preview, lambda file: load(file, trust=True)], ids=["checked", "loaded"])
@pytest.mark.parametrize(
    ("function", "expected"),
    [
        ("steps.replyy", ("function", ":5 operators[2].written_by", "module 'steps' has no 'replyy' (did you mean 'reply'?)")),
        (
            "steps.misspelt",
            (
                "parameter",
                ":5 operators[2].written_by",
                "parameter 'fcts' is not an operator before it (did you mean 'facts'?)",
            ),
        ),
    ],
)  # fmt: skip
def test_a_function_is_checked_at_its_place(write, opened, function, expected):
    assert issues(write(FUNCTION.replace("steps.reply", function)), opened) == [expected]


def test_parameters_of_a_mapped_function_are_checked_in_the_file(write):
    (write("").parent / "steps.py").write_text("def check(item, fcts):\n    return item\n")
    text = "operators:\n  - &facts {instruction: List., output: {claims: [string]}}\n"
    text += "  - &check {function: steps.check, map: {over: facts.claims}}\n"
    text += "experts: [{profile: {name: A}, workflow: [[*facts, *check]]}]\n"
    assert issues(write(text)) == [
        (
            "parameter",
            ":3 operators[1].function",
            "parameter 'fcts' is neither the index nor an operator before the map (did you mean 'facts'?), and the item goes "
            "to 'item'",
        )
    ]


# Checks


CHECKED = """operators:
  - &answer {instruction: Answer., check: {function: checks.brief}}
  - &again {instruction: Say it again., check: It names a gas.}
experts: [{profile: {name: A}, workflow: [[*answer, *again]]}]
"""
CHECKS = "def brief(answer):\n    if len(answer) > 5:\n        raise ValueError('at most five letters')\n\ndef two(a, b):\n    pass\n"


@pytest.fixture
def checked(write):
    def checked(text=CHECKED):
        file = write(text)
        (file.parent / "checks.py").write_text(CHECKS)
        return file

    return checked


def test_the_answers_of_an_operator_are_checked_by_a_function_or_words(checked):
    workflow = load(checked(), trust=True).expert().workflow
    said = ["argon gas", "argon", "the gas", '{"meets": false, "wrong": "the gas", "right": "argon"}', "argon"]
    with ScriptedReasoner([*said, '{"meets": true, "wrong": "", "right": ""}']) as reasoner:
        assert workflow.run("go", reasoner).text == "argon"
    faults = [task.rejection.faults[0] for task in reasoner.tasks if task.rejection]
    assert [(fault.operator, fault.wrong, fault.lesson) for fault in faults] == [
        ("answer", "", "at most five letters"),
        ("again", "the gas", "The answer must meet this criterion: It names a gas."),
    ]


def test_a_file_with_a_check_by_a_function_needs_trust_and_one_with_words_does_not(checked):
    (capability,) = preview(checked()).capabilities.each
    assert (capability.kind, capability.what, capability.where) == ("code", "brief", "checks.py")
    assert preview(checked(CHECKED.replace("{function: checks.brief}", "It is brief."))).capabilities.each == ()


@pytest.mark.parametrize(
    ("check", "expected"),
    [
        ("{function: checks.brif}", ("function", ":2 operators[0].check.function", "module 'checks' has no 'brif' (did you mean 'brief'?)")),
        ("{function: checks.two}", ("value", ":2 operators[0].check", "two must take one argument: the answer")),
        ("''", ("value", ":2 operators[0].check", "is empty: say what the answer must be like, or remove the key")),
    ],
)  # fmt: skip
@pytest.mark.parametrize("opened", [preview, lambda file: load(file, trust=True)], ids=["checked", "loaded"])
def test_a_check_is_checked_at_its_place(checked, check, expected, opened):
    assert issues(checked(CHECKED.replace("{function: checks.brief}", check)), opened) == [expected]


def test_an_evaluator_has_no_check(checked):
    text = CHECKED.replace("workflow:", "evaluator: {instruction: Judge., check: It is fair.}, workflow:")
    assert issues(checked(text)) == [("value", ":4 experts[0].evaluator.check", "an evaluator cannot have 'check'")]
