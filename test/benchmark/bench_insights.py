"""Measure what insights save, and which jobs they disturb, on families of jobs that share a pitfall.

    python test/benchmark/bench_insights.py                # rounds, executions and words read, with and without
    python test/benchmark/bench_insights.py --similarity   # how the threshold was chosen

No model is asked: a scripted one avoids a family's pitfall only if its lesson or its insights name it, and an evaluator
in code blames the operators that did not avoid it. So the figures measure the mechanism, not a model, and are the same in
every run.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from job_families import FAMILIES, OTHERS, UNSEEN
from rich.console import Console
from rich.table import Table

from operad.evaluators import Evaluator
from operad.operators import Operator, OperatorConfig
from operad.runtime import BuiltinWorkflow, Insights, Job, Task, WorkflowMessage, WorkflowStatus
from operad.runtime.knowledge.insights import SIMILAR
from operad.runtime.models.messages import Message
from operad.runtime.reasoning.prompt import render
from operad.runtime.testing import ScriptedReasoner
from operad.runtime.values.words import similarity

OPERATORS = ("outline", "write")

PITFALLS: Mapping[str, tuple[str, str]] = {
    "sql": ("write", "Leave cancelled orders out: status <> 'cancelled'."),
    "minutes": ("outline", "Name a person and a date for each decision."),
    "recipe": ("write", "A cup of flour is 125 g; do not use millilitres for it."),
    "translation": ("write", "Address the reader as Sie."),
    "release notes": ("outline", "Put breaking changes first."),
    "复核合同": ("outline", "引用条款编号。"),
    "product texts": ("write", "Claim nothing that the data sheet does not say."),
    "bug reports": ("outline", "Ask for the version where it is missing."),
    "papers": ("write", "Quote the sentence that each remark is about."),
    "周报": ("write", "未完成的任务也要写进去。"),
}
"""Pitfall of each family: the operator that it catches, and the lesson that helps."""

FAMILY = {goal: family for family, goals in FAMILIES.items() for goal in goals}

MISLED = [
    f"Write a poem about {what} for our club's newsletter."
    for what in ("rain", "tea", "bees", "snow", "trains", "fog", "cats", "stars", "rivers", "bread", "hills", "clocks")
]
"""Jobs whose lesson helps in the next round, but not for the next job."""
OF_NO_USE = "Do it again, with more feeling."


@dataclass(frozen=True)
class Figures:
    """Figures of one job.

    Attributes:
        goal: The goal of the job.
        rounds: The number of rounds.
        executions: The number of executions of operators.
        words: The number of words in all prompts.
        insights: The number of insights in all prompts.
        prompts: The prompts.
    """

    goal: str
    rounds: int
    executions: int
    words: int
    insights: int
    prompts: Sequence[Sequence[Message]]


class Judge(Evaluator):
    """Evaluator that finds the words that the scripted model writes for a pitfall."""

    async def execute(
        self,
        reasoner: Any,
        job: Job,
        workflow_messages: list[WorkflowMessage] | None = None,
        previous_expert_outputs: list[WorkflowMessage] | None = None,
        lesson: str | None = None,
    ) -> WorkflowMessage:
        """The verdict on the last text."""
        [said] = workflow_messages or []
        for operator in OPERATORS:
            if f"{operator} fell" in said.scratchpad:
                right = PITFALLS[FAMILY[job.goal]][1] if job.goal in FAMILY else OF_NO_USE
                return WorkflowMessage(
                    status=WorkflowStatus.EXECUTION_ERROR, evaluation="a pitfall", lesson=right, blame=(operator,)
                )
        return WorkflowMessage(evaluation="right")


def answer(task: Task) -> str:
    """Return the answer of the scripted model: the name of the pitfall that it did not avoid, or none."""
    goal = task.job.goal
    before = "".join(message.scratchpad for message in task.workflow_messages if message.operator_id == "outline")
    if goal in MISLED:
        fell = task.instruction == "write" and OF_NO_USE not in task.lesson
    else:
        who, right = PITFALLS.get(FAMILY.get(goal, ""), ("", ""))
        told = [task.lesson, *(insight.text for insight in task.insights)]
        fell = task.instruction == who and not any(right in text for text in told)
    if fell:
        return f"{task.instruction} fell"
    return "outline fell" if task.instruction == "write" and before.endswith("outline fell") else task.instruction


async def run(goals: Iterable[str], insights: Insights | None) -> list[Figures]:
    """Run jobs one after another, in one workflow."""
    outline, write = (Operator(OperatorConfig(instruction=name, id=name)) for name in OPERATORS)
    workflow = BuiltinWorkflow(max_rounds=3, insights=insights)
    workflow.add_operator(outline)
    workflow.add_operator(write, previous_ops=[outline])
    workflow.set_evaluator(Judge(OperatorConfig(instruction="No pitfalls.", id="judge")))
    figures: list[Figures] = []
    for goal in goals:
        rounds = 0
        reasoner = ScriptedReasoner(answer)
        async for event in workflow.stream(Job(goal=goal), reasoner):
            rounds = max(rounds, event.round)
        prompts = [render(task) for task in reasoner.tasks]
        words = sum(len(message.text.split()) for prompt in prompts for message in prompt)
        shown = sum(len(task.insights) for task in reasoner.tasks)
        figures.append(Figures(goal, rounds, len(reasoner.tasks), words, shown, prompts))
    return figures


def in_turns() -> list[str]:
    """Return all jobs: the first of each family, then the second of each, and so on, mixed with jobs of no family."""
    most = max(len(goals) for goals in FAMILIES.values())
    turns = [[goals[turn] for goals in FAMILIES.values() if turn < len(goals)] for turn in range(most)]
    return [goal for turn in range(most) for goal in [*turns[turn], *OTHERS[turn::most]]]


@dataclass(frozen=True)
class Comparison:
    """All jobs, without insights and with them, by their kinds."""

    without: Mapping[str, Sequence[Figures]]
    with_: Mapping[str, Sequence[Figures]]


async def compare() -> Comparison:
    """Run all jobs twice."""
    goals = in_turns()
    return Comparison(*[_by_kind(await run(goals, insights)) for insights in (None, Insights())])


def _by_kind(figures: Iterable[Figures]) -> Mapping[str, Sequence[Figures]]:
    first = {goals[0] for goals in FAMILIES.values()}
    kinds: dict[str, list[Figures]] = {"first of its family": [], "later of its family": [], "of no family": []}
    for found in figures:
        kind = "first" if found.goal in first else "later" if found.goal in FAMILY else "of no"
        kinds[next(name for name in kinds if name.startswith(kind))].append(found)
    return kinds


async def misled() -> list[Figures]:
    """Jobs whose lesson does not help the next one, with insights."""
    return await run(MISLED, Insights())


def print_comparison(console: Console, comparison: Comparison) -> None:
    """Means per job, by kind."""
    table = Table(title="per job: without insights → with them")
    for column in ("jobs", "number", "rounds", "operators ran", "words read", "insights shown", "same prompts"):
        table.add_column(column, justify="left" if column == "jobs" else "right")
    for kind, without in comparison.without.items():
        with_ = comparison.with_[kind]
        means = [
            f"{sum(getattr(f, name) for f in without) / len(without):.2f} → "
            f"{sum(getattr(f, name) for f in with_) / len(with_):.2f}"
            for name in ("rounds", "executions", "words", "insights")
        ]
        same = sum(a.prompts == b.prompts for a, b in zip(without, with_, strict=True))
        table.add_row(kind, str(len(with_)), *means, f"{same} of {len(with_)}")
    console.print(table)


def print_misled(console: Console, figures: Sequence[Figures]) -> None:
    """Print how often an insight that does not help is shown."""
    table = Table(title="an insight that does not help")
    for column in ("job", "rounds", "insights shown"):
        table.add_column(column, justify="right")
    for number, found in enumerate(figures, 1):
        table.add_row(str(number), str(found.rounds), str(found.insights))
    console.print(table)


THRESHOLDS = (0.2, 0.25, 0.3, 0.35, 0.4, 0.5)


@dataclass(frozen=True)
class Reach:
    """Effect of a threshold on a job, if all other jobs have stored a lesson.

    Attributes:
        helped: Share of jobs that are similar to one of their own family.
        disturbed: Share of jobs that are similar to one of another family, or of none.
        same: Share of similar pairs within a family.
        other: Share of similar pairs among all others.
    """

    helped: float
    disturbed: float
    same: float
    other: float


def reach(families: Mapping[str, Sequence[str]], others: Sequence[str], threshold: float) -> Reach:
    """Return the effect of a threshold on families of jobs and jobs of no family."""
    family = {goal: name for name, goals in families.items() for goal in goals}
    goals = [*family, *others]
    same: dict[str, list[bool]] = {goal: [] for goal in family}
    other: dict[str, list[bool]] = {goal: [] for goal in goals}
    for one in goals:
        for two in goals:
            if one != two:
                kin = family.get(one, one) == family.get(two, two)
                (same if kin else other)[one].append(similarity(one, two) >= threshold)
    pairs_same, pairs_other = ([alike for row in rows.values() for alike in row] for rows in (same, other))
    return Reach(
        helped=sum(map(any, same.values())) / len(same),
        disturbed=sum(map(any, other.values())) / len(other),
        same=sum(pairs_same) / len(pairs_same),
        other=sum(pairs_other) / len(pairs_other),
    )


def print_similarity(console: Console) -> None:
    """Print the effect of thresholds on the families used to choose the threshold, and on later ones."""
    for title, families in {"looked at": FAMILIES, "not seen before": UNSEEN}.items():
        table = Table(title=f"{title}: {', '.join(families)}")
        for column in ("threshold", "jobs helped", "jobs disturbed", "pairs of a family", "other pairs"):
            table.add_column(column, justify="right")
        for threshold in THRESHOLDS:
            found = reach(families, OTHERS, threshold)
            shares = [f"{share:.1%}" for share in (found.helped, found.disturbed, found.same, found.other)]
            table.add_row(f"{threshold:g}{' (in use)' if threshold == SIMILAR else ''}", *shares)
        console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--similarity", action="store_true", help="show how the threshold was chosen")
    options = parser.parse_args()
    console = Console(width=120)
    if options.similarity:
        print_similarity(console)
        return
    print_comparison(console, asyncio.run(compare()))
    print_misled(console, asyncio.run(misled()))


if __name__ == "__main__":
    main()
