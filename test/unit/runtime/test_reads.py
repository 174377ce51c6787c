"""Operators that read what others further back said."""

from __future__ import annotations

from typing import Any

import pytest
from fake_operators import chain

from operad.runtime import BuiltinWorkflow, DbgptWorkflow, InvalidError, Job, Map, Port, WorkflowMessage
from operad.runtime.workflow.workflow import Workflow


class Says:
    """Says its name, and whom it heard."""

    def __init__(self, name: str, reads: tuple[str, ...] = (), ports: tuple[str, ...] = ()) -> None:
        self.name, self.reads, self.ports = name, reads, ports
        self.heard: list[list[str]] = []

    def get_id(self) -> str:
        return self.name

    async def execute(self, reasoner: Any, job: Job, workflow_messages: Any = None, *_: Any, **__: Any) -> Any:
        self.heard.append([message.operator_id for message in workflow_messages])
        taken = (self.ports[0],) if self.ports else None
        return WorkflowMessage(scratchpad=self.name, outputs={"items": ["x", "y"]}, ports=taken)


def run(workflow: Workflow) -> WorkflowMessage:
    return workflow.execute(Job(goal="go"), None)  # type: ignore[arg-type]


@pytest.mark.parametrize("platform", [BuiltinWorkflow, DbgptWorkflow])
def test_an_operator_gets_messages_of_direct_predecessors_first_and_then_those_it_reads(
    platform: type[Workflow],
) -> None:
    last = Says("last", reads=("first", "second"))
    run(chain(platform(), Says("first"), Says("second"), Says("third"), last))
    assert last.heard == [["third", "first", "second"]]


def test_a_direct_predecessor_that_is_also_read_is_received_once() -> None:
    last = Says("last", reads=("second", "first"))
    run(chain(BuiltinWorkflow(), Says("first"), Says("second"), last))
    assert last.heard == [["second", "first"]]


def test_no_message_of_a_skipped_operator_is_received() -> None:
    router, left, right, last = (
        Says("router", ports=("l", "r")),
        Says("left"),
        Says("right"),
        Says("last", ("left", "right")),
    )
    workflow = chain(BuiltinWorkflow(), router)
    workflow.add_operator(left, [Port(router, "l")])
    workflow.add_operator(right, [Port(router, "r")])
    join = Says("join")
    workflow.add_operator(join, [left, right])
    workflow.add_operator(last, [join])
    run(workflow)
    assert last.heard == [["join", "left"]]


def test_reading_an_operator_that_is_not_earlier_is_an_issue_when_the_workflow_is_built() -> None:
    first, last = Says("first", reads=("last",)), Says("last", reads=("last",))
    with pytest.raises(InvalidError) as caught:
        run(chain(BuiltinWorkflow(), first, last))
    assert [(issue.code, issue.where) for issue in caught.value.issues] == [
        ("read-too-early", "first"),
        ("read-too-early", "last"),
    ]


def test_reading_an_unknown_operator_is_an_issue_before_the_run_with_a_similar_name() -> None:
    first = Says("first")
    with pytest.raises(
        InvalidError, match=r"reads the message of 'frist', which is not an operator \(did you mean 'first'\?\)"
    ):
        run(chain(BuiltinWorkflow(), first, Says("last", reads=("frist",))))
    assert first.heard == []


def test_a_workflow_inside_reads_through_its_border() -> None:
    inner_last = Says("inner last", reads=("first", "inner first"))
    inner = chain(BuiltinWorkflow(name="inner"), Says("inner first"), Says("inner second"), inner_last)
    run(chain(BuiltinWorkflow(), Says("first"), Says("second"), inner))
    assert inner_last.heard == [["inner second", "first", "inner first"]]


def test_the_new_message_of_a_blamed_operator_is_read() -> None:
    class Judge(Says):
        async def execute(self, *_: Any, **__: Any) -> WorkflowMessage:
            status = "SUCCESS" if len(first.heard) > 1 else "EXECUTION_ERROR"
            return WorkflowMessage(status=status, blame=("first",))  # type: ignore[arg-type]

    class Numbered(Says):
        async def execute(self, *args: Any, **options: Any) -> Any:
            said = await super().execute(*args, **options)
            return said.model_copy(update={"scratchpad": f"first {len(self.heard)}"})

    class Reads(Says):
        async def execute(self, reasoner: Any, job: Job, workflow_messages: Any = None, *_: Any, **__: Any) -> Any:
            self.heard.append([message.scratchpad for message in workflow_messages])
            return ""

    first, last = Numbered("first"), Reads("last", reads=("first",))
    workflow = chain(BuiltinWorkflow(max_rounds=2), first, Says("second"), last)
    workflow.set_evaluator(Judge("judge"))
    run(workflow)
    assert last.heard == [["second", "first 1"], ["second", "first 2"]]


def test_in_a_map_an_operator_reads_the_item_by_the_maps_id() -> None:
    inside = Says("inside", reads=("each",))
    body = chain(BuiltinWorkflow(name="body"), Says("begin"), inside)
    run(chain(BuiltinWorkflow(), Says("list"), Map("each", body, over="items")))
    assert inside.heard == [["begin", "each"], ["begin", "each"]]
