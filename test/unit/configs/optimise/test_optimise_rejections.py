"""The search for a better workflow takes rejected right answers, lessons and tokens into account."""

import json

import pytest

from operad.configs.optimise import aoptimise
from operad.configs.optimise.proposals import blamed
from operad.configs.optimise.trial import Result, value
from operad.testing import ScriptedReasoner

EXPERT = """
plugin: {workflow_platform: BUILTIN}
operators:
  - &read {name: read, instruction: Read.}
  - &answer {name: answer, instruction: Answer.}
experts:
  - profile: {name: Clerk}
    workflow: [[*read, *answer]]
    evaluator: {instruction: It rhymes.}
    max_rounds: 3
"""
REJECTED = {"evaluation": "No rhyme.", "status": "EXECUTION_ERROR", "lesson": "Rhyme.", "blame": ["read"], "score": 1}


@pytest.fixture
def desk(tmp_path):
    (tmp_path / "clerk.yaml").write_text(EXPERT)
    (tmp_path / "tasks.yaml").write_text("- {id: t1, job: x, verify: {contains: right}}\n")
    return tmp_path


async def searched(desk, propose, rounds=1):
    shown = []

    def scripted(task):
        if task.instruction.startswith("You improve"):
            shown.append(task.job.inputs)
            return json.dumps({"reasoning": "so", "operations": [propose]})
        return json.dumps(REJECTED) if task.instruction.startswith("Judge") else "right"

    found = await aoptimise(
        desk / "clerk.yaml", desk / "tasks.yaml", reasoner=ScriptedReasoner(scripted), rounds=rounds
    )
    return found, shown


async def test_an_expert_whose_evaluator_rejects_right_answers_is_not_perfect(desk):
    found, [shown] = await searched(desk, {"op": "set_evaluator", "instruction": ""})
    assert found.baseline.final == 0.5
    assert "but the evaluator of the workflow rejects it: No rhyme." in found.baseline.results["t1"].reason
    assert shown["failures"][0]["score"] == 0.5
    assert (found.best.final, found.best.change) == (1.0, "set_evaluator none")


def test_the_operators_that_were_blamed_most_come_first_with_their_most_frequent_lessons():
    runs = [{"a": ("x",)}, {"b": ("y", "z")}, {"b": ("z",)}, {}, {"c": ()}, {"d": ()}]
    assert [(each["operator"], each["runs"], each["lessons"]) for each in blamed(runs)] == [
        ("b", 2, ["z", "y"]),
        ("a", 1, ["x"]),
        ("c", 1, []),
    ]


@pytest.mark.parametrize(("tokens", "expected"), [(50, 1.0), (125, 1.0), (250, 0.95), (500, 0.9), (0, 1.0)])
def test_tokens_beyond_those_of_the_unchanged_workflow_cost_score(tokens, expected):
    reference = {"a": Result(score=1, tokens=100), "other": Result(score=1, tokens=900)}
    assert value({"a": Result(score=1, tokens=tokens)}, reference) == pytest.approx(expected)
