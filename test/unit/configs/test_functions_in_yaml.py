"""Functions as operators in a configuration: named by module and function, bound by the names of operators before."""

import pytest

from operad.configs.loader import load, preview
from operad.runtime import InvalidError, Job
from operad.runtime.testing import ScriptedReasoner

STEPS = """
from operad import Job, RunContext, Take, operator
from pydantic import BaseModel

class Claims(BaseModel):
    claims: list[str]

def split(job: Job) -> Claims:
    return Claims(claims=job.goal.split())

def bullets(split: Claims, context: RunContext) -> str:
    return "\\n".join(f"- {claim}" for claim in split.claims)

@operator
def shout(claim: str) -> str:
    return claim.upper()

def count(shout: list[str]) -> int:
    return len(shout)

@operator(ports=["long", "short"])
def triage(split: Claims) -> Take[str]:
    return Take("long" if len(split.claims) > 2 else "short", " ".join(split.claims))

async def cut(triage: str) -> str:
    return triage[:3]

def same(triage: str) -> str:
    return triage

def positional(a, /):
    return a

made = [1]
"""


@pytest.fixture
def write(tmp_path):
    (tmp_path / "steps.py").write_text(STEPS, encoding="utf-8")

    def write(text):
        (tmp_path / "expert.yaml").write_text(text, encoding="utf-8")
        return tmp_path / "expert.yaml"

    return write


def expert(operators, chains):
    return f"operators:\n{operators}\nexperts: [{{profile: {{name: X}}, workflow: {chains}}}]\n"


def answer(file, goal="a b"):
    workflow = load(file, trust=True).expert().workflow
    return workflow.execute(Job(goal), ScriptedReasoner([])).scratchpad


def test_a_function_is_an_operator_by_its_own_name(write):
    operators = "  - {function: steps.split}\n  - {function: steps.bullets}"
    assert answer(write(expert(operators, "[[split, bullets]]"))) == "- a\n- b"


def test_an_anchor_names_a_function_and_inputs_come_before_it(write):
    operators = "  - &split {function: steps.split}\n  - &list {function: steps.bullets, inputs: [split]}"
    assert answer(write(expert(operators, "[[*split], [*list]]"))) == "- a\n- b"


def test_a_function_is_named_in_a_chain_without_a_definition(write):
    assert answer(write(expert("", "[[steps.split, steps.bullets]]").replace("operators:\n\n", ""))) == "- a\n- b"


def test_a_function_is_mapped_over_a_list_and_followed(write):
    operators = "  - {function: steps.split}\n  - {function: steps.shout, map: {over: split.claims}}\n  - {function: steps.count}"
    assert answer(write(expert(operators, "[[split, shout, count]]")), "a b c") == "3"


@pytest.mark.parametrize(("goal", "said"), [("a b", "a b"), ("ab cd e", "ab ")])
def test_a_function_with_ports_takes_one(write, goal, said):
    operators = "  - {function: steps.split}\n  - {function: steps.triage}\n  - {function: steps.cut}\n  - {function: steps.same}"
    chains = "[[split, {operator: triage, port: long}, cut], [{operator: triage, port: short}, same]]"
    assert answer(write(expert(operators, chains)), goal) == said


def found(file, how=load):
    with pytest.raises(InvalidError) as caught:
        how(file)
    return [(issue.code, issue.where.rpartition(":")[2], issue.message) for issue in caught.value.issues]


@pytest.mark.parametrize("how", [load, preview])
@pytest.mark.parametrize(
    ("function", "where", "message"),
    [
        ("steps.splt", "2 operators[0].function", "module 'steps' has no 'splt' (did you mean 'split'?)"),
        ("stepz.split", "2 operators[0].function", "module 'stepz' is neither beside this file nor installed"),
        ("json.dumps", "2 operators[0].function", "belongs to Python's standard library; wrap "),
        (
            "steps.positional",
            "2 operators[0].function",
            "parameter 'a' is positional-only; parameters are bound by name",
        ),
        ("steps.made", "2 operators[0].function", "steps.made is not a function"),
        ("split", "2 operators[0].function", "'split' names no module: write module.function"),
    ],
)
def test_a_function_that_cannot_be_used_is_told_at_its_line(write, how, function, where, message):
    file = write(expert(f"  - {{function: {function}, name: it}}", "[[it]]"))
    [(_, at, said)] = found(file, how)
    assert at == where
    assert message in said


@pytest.mark.parametrize("how", [load, preview])
def test_a_parameter_that_fits_nothing_is_told_with_near_names_also_without_running_the_code(write, how):
    operators = (
        "  - {function: steps.split, name: splits}\n  - {function: steps.shout}\n  - {function: steps.cut, name: cuts}"
    )
    [(code, where, message)] = found(write(expert(operators, "[[splits, cuts], [shout, cuts]]")), how)
    assert (code, where) == ("parameter", "4 operators[2].function")
    assert message.startswith("parameter 'triage' is not an operator before it; before it: splits, shout")


@pytest.mark.parametrize("evaluator", ["{function: checks.three}", "three", "[three]"])
def test_a_function_judges_and_its_fault_is_the_lesson(write, tmp_path, evaluator):
    (tmp_path / "checks.py").write_text(
        "from operad import FaultError\n\n"
        "def three(draft: str) -> None:\n"
        "    if len(draft.split()) != 3:\n"
        "        raise FaultError('Write three words.')\n",
        encoding="utf-8",
    )
    text = expert(
        "  - {name: draft, instruction: Draft.}\n  - {name: three, function: checks.three}",
        f"[[draft]], evaluator: {evaluator}",
    )
    answers = iter(["Two words.", "Now three words."])
    lessons = []

    def answer(task):
        lessons.append(task.lesson)
        return next(answers)

    result = load(write(text), trust=True).expert().workflow.run("Go.", ScriptedReasoner(answer))
    assert (result.text, result.status.value) == ("Now three words.", "SUCCESS")
    assert lessons == ["", "Write three words."]
