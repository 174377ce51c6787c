"""The parameter `failure` of typed nodes, which is read into their policy."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from operad import Budget, InvalidError, Job, OperatorError, Policy, Retry, RunContext, Workflow, events
from operad.operators.node import NodeOperator, NodeParams
from operad.runtime.events.run_context import MissingDepsError
from operad.runtime.policies.policy import ErrorValues
from operad.runtime.testing import run_on_fake_clock
from operad.runtime.values.errors import BudgetError
from operad.runtime.values.message import NO_USAGE

CALLS: list[int] = []
VALUES = {"then": "values", "values": {"text": "none"}}


class FragileParams(NodeParams):
    seconds: float = 0.0


class Fragile(NodeOperator[FragileParams]):
    """Fails."""

    type = "fragile"
    params_type = FragileParams

    async def compute(self, call):
        CALLS.append(RunContext.current().attempt)
        await asyncio.sleep(self.params.seconds)
        raise ValueError("broken")


class Poor(NodeOperator[NodeParams]):
    """Exceeds a budget."""

    type = "poor"

    async def compute(self, call):
        CALLS.append(1)
        raise RuntimeError("wrapped") from BudgetError("used up", NO_USAGE)


class Lacking(NodeOperator[NodeParams]):
    """Lacks its deps."""

    type = "lacking"

    async def compute(self, call: Any) -> Any:
        CALLS.append(1)
        RunContext.current(annotation="RunContext[Database]")


@pytest.fixture(autouse=True)
def _no_calls():
    CALLS.clear()


def fragile(failure, **params):
    return Fragile("it", {"failure": failure, **params})


def run(node, *, own=None, default=None, **options):
    """Run a node, and return its message with the retries and fallbacks of the run."""
    seen = []

    def note(event):
        if isinstance(event, events.OperatorRetried):
            seen.append(("retried", event.attempt))
        if isinstance(event, events.FellBack):
            seen.append((event.to, event.attempt))

    flow = Workflow(policy=default or Policy(), listeners=[note], **options)
    flow.add(node, policy=own)
    return run_on_fake_clock(flow.arun("go")).message, seen


@pytest.mark.parametrize("given_as", ["own", "default"])
def test_a_policy_retries_a_node_whose_failure_gives_values(given_as):
    message, seen = run(fragile(VALUES), **{given_as: Policy(retry=Retry(3, on=ValueError))})
    assert message.outputs == {"text": "none", "error_message": "ValueError: broken", "error_type": "ValueError"}
    assert seen == [("retried", 1), ("retried", 2), ("its values", 3)]
    assert CALLS == [1, 2, 3]


@pytest.mark.parametrize("given_as", ["own", "default"])
def test_a_time_limit_counts_as_a_failure_that_is_retried_and_answered_with_values(given_as):
    message, seen = run(fragile({"retries": 1, **VALUES}, seconds=60), **{given_as: Policy(timeout=1)})
    assert message.outputs["error_type"] == "OperatorTimeoutError"
    assert seen == [("retried", 1), ("its values", 2)]


def test_the_branch_for_failures_is_taken_after_a_time_limit():
    def after(it: str) -> str:
        return f"the branch after {it}"

    node = fragile({"then": "branch"}, seconds=60)
    flow = Workflow(policy=Policy(timeout=1))
    flow.add(node)
    flow.add(after, after=node["failed"])
    assert run_on_fake_clock(flow.arun("go")).output.startswith("the branch after operator 'it' ran longer than 1 s")


def test_a_fallback_of_a_policy_follows_the_retries_of_a_node_that_names_no_consequence():
    message, seen = run(fragile({"retries": 2}), own=Policy(fallback="a text"))
    assert message.scratchpad == "a text"
    assert seen == [("retried", 1), ("retried", 2), ("a constant", 3)]


def test_what_a_node_says_overrides_the_policy_of_its_workflow():
    default = Policy(retry=Retry(5, on=ValueError), fallback="a text")
    message, seen = run(fragile({"retries": 1, **VALUES}), default=default)
    assert message.outputs["text"] == "none"
    assert seen == [("retried", 1), ("its values", 2)]
    with pytest.raises(OperatorError, match="failed on attempt 1: ValueError: broken"):
        run(fragile({"retries": 0, "then": "end"}), default=default)


@pytest.mark.parametrize(
    ("failure", "policy", "places"),
    [
        ({"retries": 1}, Policy(retry=3), ["failure.retries"]),
        ({"retries": 0}, Policy(retry=3), ["failure.retries"]),
        ({"then": "end"}, Policy(fallback="a text"), ["failure.then"]),
        ({"retries": 1, **VALUES}, Policy(retry=False, fallback="a text"), ["failure.retries", "failure.then"]),
        ({"retries": 1}, Policy(fallback="a text", timeout=1), []),
        (VALUES, Policy(retry=3, timeout=1), []),
        ({"retries": 1, **VALUES}, Policy(fallback=ErrorValues(VALUES["values"])), []),
    ],
)
def test_a_value_that_both_the_node_and_its_own_policy_set_is_an_issue(failure, policy, places):
    flow = Workflow(name="both")
    flow.add(fragile(failure), policy=policy)
    issues = flow.graph().check()
    found = [(each.code, each.where, each.message.partition(":")[0]) for each in issues if each.code == "two-policies"]
    assert found == [("two-policies", "it", place) for place in places]


@pytest.mark.parametrize(("kind", "error"), [(Poor, RuntimeError), (Lacking, MissingDepsError)])
def test_neither_a_used_up_budget_nor_lacking_deps_are_retried_or_replaced(kind, error):
    node = kind("it", {"failure": {"retries": 3, **VALUES}})
    with pytest.raises(OperatorError) as caught:
        run(node)
    assert isinstance(caught.value.__cause__, error)
    assert CALLS == [1]


def test_a_run_over_its_budget_ends_in_a_node_with_values():
    with pytest.raises(BudgetError):
        run(fragile({"retries": 3, **VALUES}, seconds=60), budget=Budget(seconds=1))


def test_each_item_of_a_map_has_the_values_of_its_node_and_the_map_its_own_policy():
    def three() -> list[int]:
        return [1, 2, 3]

    flow = Workflow(three)
    flow.map(fragile({"retries": 1, **VALUES}), over="three", id="each", policy=Policy(retry=5, fallback="a text"))
    result = run_on_fake_clock(flow.arun("go"))
    assert [item["text"] for item in result.message.outputs["items"]] == ["none"] * 3
    assert sorted(CALLS) == [1, 1, 1, 2, 2, 2]


def test_a_fallback_that_describes_the_error_serves_any_operator():
    def broken(job: Job) -> str:
        raise KeyError("no name")

    flow = Workflow()
    flow.add(broken, policy=Policy(fallback=ErrorValues({"text": ""})))
    assert flow.run("go").message.outputs == {
        "text": "",
        "error_message": "KeyError: 'no name'",
        "error_type": "KeyError",
    }


@pytest.mark.parametrize("failure", [{"values": {"text": ""}}, {"then": "end", "values": {"text": ""}}])
def test_values_that_no_failure_would_give_are_an_issue(failure):
    with pytest.raises(InvalidError) as caught:
        fragile(failure)
    assert [(issue.code, issue.where) for issue in caught.value.issues] == [("param", "it")]
