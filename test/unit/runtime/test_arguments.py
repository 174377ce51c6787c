"""Arguments of workflows and operators: the model of a run, and names that do not exist."""

import inspect
import traceback
from typing import Any

import pytest

from operad import Evaluator, InputError, Operator, Workflow, operator
from operad.runtime import BuiltinWorkflow, events
from operad.runtime.testing import ScriptedReasoner


def say() -> Workflow:
    return BuiltinWorkflow(Operator("Say.", id="say"), model=ScriptedReasoner([]))


async def test_the_model_of_a_run_is_a_keyword_of_every_way_to_run():
    assert (await say().arun("x", model=ScriptedReasoner(["arun"]))).text == "arun"
    assert (await say().start("x", model=ScriptedReasoner(["start"]))).text == "start"
    streamed = [event async for event in say().stream("x", model=ScriptedReasoner(["stream"]))]
    assert isinstance(streamed[-1], events.RunFinished)
    assert streamed[-1].message.scratchpad == "stream"
    assert (await say().chat(model=ScriptedReasoner(["chat"])).asend("x")).text == "chat"


def unchecked(kind: Any) -> Any:
    """A class whose arguments no type checker knows."""
    return kind


def test_run_takes_the_model_by_keyword_and_by_position_but_not_both():
    assert say().run("x", model=ScriptedReasoner(["keyword"])).text == "keyword"
    assert say().run("x", ScriptedReasoner(["position"])).text == "position"
    with pytest.raises(InputError, match=r"^the run's model is given twice: as the second argument and as model=…"):
        say().run("x", ScriptedReasoner(["one"]), model=ScriptedReasoner(["two"]))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: unchecked(Operator)("A", output_type=int),
            "Operator(…) has no argument 'output_type' (did you mean 'output'?); ",
        ),
        (
            lambda: unchecked(Operator)("A", name="x"),
            "Operator(…) has no argument 'name'; it has: instruction, id, output, tools, ",
        ),
        (
            lambda: unchecked(Evaluator)("A", nme="x"),
            "Evaluator(…) has no argument 'nme'; it has: instruction, id, tools, ",
        ),
        (
            lambda: unchecked(Workflow)(rounds=2),
            "Workflow(…) has no argument 'rounds' (did you mean 'max_rounds'?); it has: graph, ",
        ),
        (
            lambda: unchecked(BuiltinWorkflow)(limit=2, nam="x"),
            "BuiltinWorkflow(…) has no argument 'limit' (did you mean 'limits'?), 'nam' (did you mean 'name'?); it has: ",
        ),
        (
            lambda: unchecked(operator)(ids="x"),
            "@operator(…) has no argument 'ids' (did you mean 'id'?); it has: id, ports, policy, retry, inline",
        ),
    ],
)
def test_an_unknown_argument_is_told_with_the_nearest_and_all_known_ones_in_one_line(make, message):
    with pytest.raises(InputError) as caught:
        make()
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_without_a_model_a_run_from_python_says_first_where_python_gives_one(monkeypatch):
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPERAD_MODEL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(InputError) as caught:
        BuiltinWorkflow(Operator("Say.", id="say")).run("x")
    assert str(caught.value) == (
        "no model is configured: give one, as model=Model(name=…, base_url=…) in Workflow(…) or run(…); or set "
        "OPENAI_API_KEY, or OPENAI_BASE_URL and OPERAD_MODEL, in the environment"
    )
    assert "NoModelError" not in "".join(traceback.format_exception(caught.value))


def test_the_signatures_remain_those_that_are_written():
    assert list(inspect.signature(Operator).parameters)[:3] == ["instruction", "id", "output"]
    assert list(inspect.signature(Workflow).parameters)[:3] == ["graph", "max_rounds", "evaluator"]
