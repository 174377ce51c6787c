"""Records of the operators of a run, also of those inside of others, as evaluators see them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from operad.runtime.events import current_scope
from operad.runtime.graph.build import Build
from operad.runtime.values.step_record import StepRecord
from operad.runtime.workflow.kept import Done, InnerRun


def records_of(
    build: Build, done: Mapping[int, Done], skipped: Mapping[int, str], changed: Collection[int] = ()
) -> list[StepRecord]:
    """Return the records of the operators of a workflow that ran or were skipped, in the order of the graph.

    The records of operators inside an operator follow its own; their ids are their places, such as ``draft/body``.

    Args:
        done: Outcomes of operators, by number.
        skipped: Reasons for which operators were skipped, by number.
        changed: Operators whose message has changed since the last verdict.
    """
    records: list[StepRecord] = []
    for node in range(build.first_evaluator):
        if recorded := build.nodes[node].operator.recorded:
            records += recorded
            continue
        outcome = done.get(node)
        if outcome is None and node not in skipped:
            continue
        record = _record(build, node, outcome, skipped.get(node, ""), is_changed=node in changed)
        records.append(record)
        inner = outcome.trace.inner if outcome and outcome.trace else {}
        for step, run in sorted(inner.items(), key=lambda each: (len(each[0]), each[0])):
            records += _inside(run, step, record)
    return records


def _record(build: Build, node: int, outcome: Done | None, skipped: str, *, is_changed: bool) -> StepRecord:
    ids, trace = build.plan.ids, outcome and outcome.trace
    has_tools = build.nodes[node].has_tools
    fields = {"message": outcome.message} if outcome else {}
    return StepRecord(
        operator_id=ids[node],
        instruction=build.instructions.get(ids[node], ""),
        before=tuple(ids[parent] for parent in build.plan.parents[node]),
        tool_calls=tuple(trace.calls) if trace and trace.calls else () if has_tools and outcome else None,
        calls_missing=trace.calls_missing if trace else "",
        passages=trace.passages if trace else (),
        skipped=skipped,
        changed=is_changed,
        **fields,
    )


def _inside(run: InnerRun, step: str, around: StepRecord) -> Iterator[StepRecord]:
    """Yield the records of a run inside an operator.

    For an item of a map whose body is one operator, the record has the place of the item; it is left out if the map's
    own record tells all of it.

    Args:
        step: The operator as a step of a path, with the index of a map's item.
    """
    records = records_of(run.build, run.done, dict.fromkeys(run.skipped, "no edge to it was taken"))
    is_item = step != around.operator_id
    if is_item and run.build.first_evaluator == 1:
        records = [
            record.model_copy(update={"operator_id": step, "before": around.before, "instruction": ""})
            for record in records
            if record.tool_calls or record.passages
        ]
        yield from (record.model_copy(update={"changed": around.changed}) for record in records)
        return
    for record in records:
        before = tuple(f"{step}/{parent}" for parent in record.before) or around.before
        place = {"operator_id": f"{step}/{record.operator_id}", "before": before}
        yield record.model_copy(update={**place, "changed": around.changed})


def transcript() -> tuple[StepRecord, ...]:
    """Return the records of the current run's operators, in the order in which the operators were added.

        class Short(Evaluator):
            async def run(self, call: OperatorCall) -> WorkflowMessage:
                total = sum(len(step.message.scratchpad) for step in transcript())
                return WorkflowMessage(evaluation=f"{total} characters", score=min(total / 1000, 1.0))

        print(Workflow(facts >> answer, evaluator=Short("Brief texts.")).run("hello").text)

    With the messages of all operators, not only of the last ones, an evaluator can tell which operator is at fault.
    Operators that did not run, or that run again, are left out. Outside of a run, the transcript is empty.
    """
    scope = current_scope()
    return tuple([step.own() for step in scope.run.transcript()]) if scope else ()
