"""An evaluation as a test: it fails with the faults, and the operators at fault, in its message.

The model answers from a script. With a model of your own, leave `model=` out, and set OPENAI_API_KEY and OPERAD_MODEL.
"""

import json

import pytest

from operad import Evaluator, FaultError, Operator, Workflow
from operad.evaluation import Case
from operad.testing import Say, ScriptedModel

count = Operator("Count the pieces of each kind in the order.", id="count")
write = Operator("Write the confirmation.", id="write")
flow = Workflow(count >> write, name="orders")

CASES = [
    Case("figs", job="Six figs and a date, please.", expected=["6 figs", "1 date"]),
    Case("dates", job="Two dates.", expected=["2 dates"]),
]


def complete(output: str, count: str, expected: list[str]) -> None:
    """Every count is in the confirmation; a count that is already wrong is the fault of `count`."""
    for each in expected:
        if each not in count:
            raise FaultError(f"{each!r} was not counted: {count}", lesson=f"There are {each}.", blame=["count"])
        if each not in output:
            raise FaultError(f"{each!r} is not confirmed: {output}", lesson=f"Confirm {each}.", blame=["write"])


polite = Evaluator("The confirmation thanks the customer.", id="polite")


def answers(figs):
    """Return a model that counts this number of figs."""

    def answer(request):
        instruction, order = request["messages"][0]["content"], str(request["messages"][1:])
        if instruction.startswith("Judge"):
            return Say(json.dumps({"evaluation": "It thanks.", "status": "SUCCESS", "lesson": "", "blame": []}))
        counted = "2 dates" if "Two dates" in order else f"{figs} figs, 1 date"
        return Say(counted if instruction.startswith("Count") else f"Thank you for {counted}.")

    return ScriptedModel(answer)


def test_orders_are_confirmed():
    with answers(figs=6) as endpoint:
        report = flow.evaluate(CASES, [complete, polite], model=endpoint.model)
    report.assert_passed()


def test_a_wrong_count_is_the_fault_of_the_operator_that_counts():
    with answers(figs=7) as endpoint:
        report = flow.evaluate(CASES, [complete, polite], model=endpoint.model)
    with pytest.raises(AssertionError) as failed:
        report.assert_passed()
    assert str(failed.value) == (
        "orders: 1 of 2 cases did not pass\n"
        "figs\n"
        "  complete: '6 figs' was not counted: 7 figs, 1 date\n"
        "    count: lesson: There are 6 figs."
    )
