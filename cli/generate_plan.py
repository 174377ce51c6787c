"""`operad generate --plan`: a plan in words with its questions, and the decisions of a person at a terminal."""

from __future__ import annotations

import json
from typing import NamedTuple

from rich.console import Console

from operad.cli.ask import Lines
from operad.cli.follow import follow, prompt, run_to_end, say
from operad.cli.generate_events import DesignListener
from operad.cli.process import put
from operad.configs.generation import Designer
from operad.flows.generation.asking import WorkflowPlan
from operad.flows.node_graph import NodeGraph
from operad.runtime.values.text import printable

AGREE = "Build this? (Y, n, or what to change)"

AS_PLANNED = "as planned"

HINT = "nothing was built: without --plan it is; put answers and changes into the instruction"


class Agreed(NamedTuple):
    """Request with the plan that a person agreed to."""

    instruction: str
    plan: WorkflowPlan


def show_plan(
    designer: Designer,
    instruction: str,
    base: NodeGraph,
    lines: Lines,
    explained: DesignListener | None,
    *,
    as_json: bool,
) -> bool:
    """Plan a request, print the plan with its questions to stdout, and return whether there is something to build."""
    plan = _plan(designer, instruction, base, None, lines)
    if as_json:
        put(json.dumps(plan.as_json(), indent=2, ensure_ascii=False))
    else:
        for line in _lines(plan):
            print(printable(line))
    console = Console(stderr=True)
    for line in explained.lines() if explained else ():
        say(console, line)
    say(console, HINT)
    return bool(plan.steps)


def agreed_plan(designer: Designer, instruction: str, base: NodeGraph, lines: Lines) -> Agreed | None:
    """Show plans of a request at the terminal, and ask their questions, until the person agrees; None if not.

    A plan that was answered otherwise than it assumes, and a change, are planned again, from the plan so far.
    """
    console, seen = Console(stderr=True), None
    while True:
        plan = _plan(designer, instruction, base, seen, lines)
        for line in plan.lines:
            say(console, line)
        if not plan.steps:
            return None
        answers: list[str] = []
        for question in plan.questions:
            say(console, f"{question.text} (an empty line for: {question.default or AS_PLANNED})")
            if (answer := _typed(lines, console)) is None:
                return None
            answers.append(answer)
        seen = plan.answered(*answers)
        if seen.decided_otherwise:
            instruction = "\n".join([instruction, *seen.decisions])
            continue
        say(console, AGREE)
        answer = _typed(lines, console)
        if answer is None or answer.lower() in ("n", "no"):
            return None
        if answer.lower() in ("", "y", "yes"):
            return Agreed(instruction, seen)
        instruction = "\n".join([instruction, *seen.decisions, answer])


def _plan(
    designer: Designer, instruction: str, base: NodeGraph, seen: WorkflowPlan | None, lines: Lines
) -> WorkflowPlan:
    job = designer.job_of_plan(instruction, base, seen)
    message = run_to_end(follow(designer.planner, job, [], {}, None, lines, brief=True))
    return designer.plan_in(message, job, base)


def _lines(plan: WorkflowPlan) -> list[str]:
    questions = (f"question: {text} (by default: {default or AS_PLANNED})" for text, default in plan.questions)
    return [*plan.lines, *questions]


def _typed(lines: Lines, console: Console) -> str | None:
    prompt(console, "> ")
    if (line := run_to_end(lines.next())) is None:
        say(console, "")
        return None
    return line.strip()
