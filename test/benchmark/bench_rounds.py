"""Measure the cost until SUCCESS of blame and a partial re-run, compared with running everything again.

    make bench                                          # this, among others
    python test/benchmark/bench_rounds.py --json FILE   # all figures
    python test/benchmark/bench_rounds.py --pages       # write the figures in README and docs

One operator makes a mistake until it has received a number of lessons, and its successors pass the mistake on. The
evaluator at the end blames the operator; in the comparison it blames none, so that the whole workflow runs again, as in
Chat2Graph. Operators and evaluator are real, and the model is scripted. Words of prompts and answers count as tokens: the
job has 200 words, which all operators read, and an answer has about 40. To find the operator at fault, the evaluator reads
the output of every operator; if blame saves no execution, it therefore costs more.

The executions are compared with the expected ones: in every round, the blamed operator and all that depend on it; the
others once. The exit status is 1 if they differ.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path

from graphs import Graph, chain, fan, layered
from page import write_figures
from rich.console import Console
from rich.table import Table

from operad.evaluators import Evaluator
from operad.operators import Operator, OperatorConfig
from operad.runtime import BuiltinWorkflow, Job, Task, Usage, WorkflowStatus, events
from operad.runtime.reasoning.prompt import render

NOTE = "On the fourth of May the pilot took two ships in by the northern channel and one out by the other. "
JOB = Job(goal="Write a report on the harbour from the notes of its pilots, with dates.", context=NOTE * 10)
JUDGE = "judge"
MISTAKE = "MISTAKE"
ANSWER = "What the notes say on this point, in some forty words, as a step of a report would put it: " * 2

SHAPES: Mapping[str, tuple[Graph, Mapping[str, str]]] = {
    "chain 10": (chain(10), {"head": "0", "middle": "5", "tail": "9"}),
    "chain 50": (chain(50), {"head": "0", "middle": "25", "tail": "49"}),
    "fan 10": (fan(10), {"head": "source", "middle": "5", "tail": "join"}),
    "fan 50": (fan(50), {"head": "source", "middle": "25", "tail": "join"}),
    "layered 10x5": (layered(10, 5), {"head": "input", "middle": "5_2", "tail": "tail"}),
}
"""Graphs, each with the operators that make the mistake."""


class Played:
    """Scripted reasoner of all operators, which counts the words read and written as tokens.

    Args:
        culprit: The operator that makes the mistake.
        lessons: The number of lessons that it needs.
        blames: Whether the evaluator blames the operator. If not, the evaluator is not shown the operators, and no operator
            is shown its earlier answer, because Chat2Graph has neither.

    Attributes:
        executions: The number of executions by operator.
    """

    def __init__(self, culprit: str, lessons: int, *, blames: bool) -> None:
        self.executions: Counter[str] = Counter()
        self._culprit = culprit
        self._lessons = lessons
        self._blames = blames

    async def infer(self, task: Task) -> str:
        scope = events.current_scope()
        assert scope
        who, heard = scope.operator_id, len(task.lesson.splitlines())
        inputs = [m for m in task.workflow_messages if m.operator_id != who and m.status is WorkflowStatus.SUCCESS]
        mistaken = any(MISTAKE in message.scratchpad for message in inputs)
        if who == JUDGE:
            answer = self._verdict(mistaken, heard)
        else:
            self.executions[who] += 1
            mistaken = mistaken or (who == self._culprit and heard < self._lessons)
            answer = f"{ANSWER} {MISTAKE if mistaken else 'right'}"
        if not self._blames:
            task = task.model_copy(update={"transcript": (), "workflow_messages": tuple(inputs)})
        read = sum(len(message.text.split()) for message in render(task))
        usage = Usage(calls=1, prompt_tokens=read, completion_tokens=len(answer.split()))
        events.emit(events.ModelAnswered(model="played", usage=usage))
        return answer

    def _verdict(self, mistaken: bool, heard: int) -> str:
        verdict = {
            "evaluation": "A date is wrong, and all that follows from it." if mistaken else "All dates are right.",
            "status": (WorkflowStatus.EXECUTION_ERROR if mistaken else WorkflowStatus.SUCCESS).value,
            "lesson": f"Lesson {heard + 1}: compare the date with the pilot's own note." if mistaken else "",
            "blame": [self._culprit] if mistaken and self._blames else [],
            "score": 4 if mistaken else 10,
        }
        return json.dumps(verdict)


@dataclass(frozen=True)
class Cost:
    """Cost until SUCCESS: executions and tokens of operators, and tokens including the evaluator's."""

    executions: int
    operator_tokens: int
    tokens: int


@dataclass(frozen=True)
class Measured:
    """Costs of one mistake with both methods; `aims` are the expected executions."""

    shape: str
    operators: int
    place: str
    lessons: int
    ours: Cost
    all_again: Cost
    aims: tuple[int, int]

    @property
    def as_it_should_be(self) -> bool:
        return (self.ours.executions, self.all_again.executions) == self.aims


async def measure(graph: Graph, reasoner: Played, lessons: int) -> Cost:
    heard: list[events.Event] = []
    workflow = BuiltinWorkflow(max_rounds=lessons + 2, listeners=[heard.append])
    operators = {
        node: Operator(OperatorConfig(id=node, instruction=f"Do step {node} of the report, and say what it rests on."))
        for node in graph
    }
    for node, before in graph.items():
        workflow.add_operator(operators[node], [operators[previous] for previous in before])
    workflow.set_evaluator(Evaluator(OperatorConfig(id=JUDGE, instruction="Every date is that of a note.")))
    message = await workflow.aexecute(JOB, reasoner)
    if message.status is not WorkflowStatus.SUCCESS:
        raise SystemExit(f"no success: {message.evaluation}")
    ended = [event for event in heard if isinstance(event, events.OperatorFinished) and event.operator_id != JUDGE]
    spent = sum(event.message.usage.tokens for event in ended)
    return Cost(sum(reasoner.executions.values()), spent, message.usage.tokens)


def following(graph: Graph, node: str) -> set[str]:
    """Return the node and all nodes that depend on it."""
    found = {node}
    while more := {after for after, before in graph.items() if found & set(before)} - found:
        found |= more
    return found


async def measure_all() -> Sequence[Measured]:
    all_measured: list[Measured] = []
    for shape, (graph, places) in SHAPES.items():
        for (place, culprit), lessons in product(places.items(), (1, 2)):
            rounds, again = lessons + 1, len(following(graph, culprit))
            measured = Measured(
                shape=shape,
                operators=len(graph),
                place=place,
                lessons=lessons,
                ours=await measure(graph, Played(culprit, lessons, blames=True), lessons),
                all_again=await measure(graph, Played(culprit, lessons, blames=False), lessons),
                aims=(rounds * again + len(graph) - again, rounds * len(graph)),
            )
            all_measured.append(measured)
    return all_measured


def table_of(all_measured: Sequence[Measured]) -> Table:
    table = Table(
        "graph",
        "mistake at",
        "lessons",
        title="Until SUCCESS: blame and a partial re-run, compared with running everything again",
    )
    for column in ("executions", "aim", "all again", "ratio"):
        table.add_column(column, justify="right")
    for column in ("operators' tokens", "all again", "ratio", "all tokens", "all again", "ratio"):
        table.add_column(column, justify="right")
    for each in all_measured:
        ours, whole = each.ours, each.all_again
        executions, *beside_it = beside(ours.executions, whole.executions)
        table.add_row(
            each.shape,
            each.place,
            str(each.lessons),
            executions,
            f"{each.aims[0]}{'' if each.as_it_should_be else ' !'}",
            *beside_it,
            *beside(ours.operator_tokens, whole.operator_tokens),
            *beside(ours.tokens, whole.tokens),
            end_section=(each.place, each.lessons) == ("tail", 2),
        )
    return table


def beside(ours: int, whole: int) -> tuple[str, str, str]:
    return f"{ours:,}", f"{whole:,}", f"{ours / whole:.2f}"


def figures_of(all_measured: Sequence[Measured]) -> Mapping[str, str]:
    """Return the figures in README and docs: ten operators in a chain, one lesson."""
    chains = {each.place: each for each in all_measured if each.shape == "chain 10" and each.lessons == 1}
    late, first = chains["tail"], chains["head"]
    spent = late.ours.tokens / late.all_again.tokens
    return {
        "rounds.late.tokens": f"{spent:.0%}",
        "rounds.late.saved": f"{1 - spent:.0%}",
        "rounds.first.dearer": f"{first.ours.tokens / first.all_again.tokens - 1:.0%}",
    }


def wrong(all_measured: Sequence[Measured]) -> Iterator[str]:
    for each in all_measured:
        if not each.as_it_should_be:
            found = (each.ours.executions, each.all_again.executions)
            yield f"{each.shape}, {each.place}, {each.lessons}: executions {found}, and should be {each.aims}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    parser.add_argument("--pages", action="store_true", help="write the figures in README and docs")
    args = parser.parse_args()
    all_measured = asyncio.run(measure_all())
    if args.json:
        figures = [asdict(each) for each in all_measured]
        args.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    if args.pages:
        write_figures(figures_of(all_measured))
    console = Console(width=max(160, Console().width))
    console.print(table_of(all_measured))
    if faults := list(wrong(all_measured)):
        sys.exit("\n".join(faults))


if __name__ == "__main__":
    main()
