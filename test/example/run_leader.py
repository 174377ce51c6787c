"""A leader at work: it splits a job over three experts, and one of them finds the data of another wrong.

    python test/example/run_leader.py

Who is blamed does its part again with the lesson, and so do those who build on it; the rest is kept.
Then the same team begins all over at each fault, to see what that would have cost. `answer` stands in
for a model: it serves the real client and reasoners. With OPENAI_API_KEY set, that endpoint is asked.
"""

import asyncio
import json
import os
from contextlib import nullcontext

from operad.evaluators import Evaluator
from operad.operators import Operator, OperatorConfig
from operad.runtime import BuiltinWorkflow, Expert, Job, Leader, MonoModelReasoner, Profile, WorkflowStatus, events
from operad.testing import Say, ScriptedModel

JOB = Job(
    goal="Say in one sentence whether the town library costs more or less per visitor than five years ago.",
    context="Visitors: 80,000 in 2020, 96,000 in 2025. Costs: 400,000 EUR in 2020, 432,000 EUR in 2025.",
)

PARTS = [
    ("visitors", "Researcher", [], "List how many people visited the library."),
    ("costs", "Researcher", [], "List what the library costs."),
    ("table", "Analyst", ["visitors", "costs"], "Work out the costs per visitor."),
    ("text", "Writer", ["table"], "Say in one sentence how they changed."),
]


def answer(request):
    """Stand in for a model, which at first leaves out a year."""
    told, asked = request["messages"][0]["content"], request["messages"][-1]["content"]
    if told.startswith("You lead"):
        return Say(json.dumps({"sub_jobs": [named(*part) for part in PARTS]}))
    if told.startswith("Judge"):
        return Say(json.dumps(verdict(complete="2020: 5.00 EUR" in asked)))
    if told.startswith("You work out"):
        return Say("2020: 5.00 EUR, 2025: 4.50 EUR per visitor" if "400,000" in asked else "2025: 4.50 EUR per visitor")
    if told.startswith("You write"):
        return Say("A visit costs the town 4.50 EUR, half a euro less than five years ago.")
    if "visited" in asked:
        return Say("2020: 80,000 visitors, 2025: 96,000 visitors")
    both = "every year" in asked  # as the lesson says
    return Say("2020: 400,000 EUR, 2025: 432,000 EUR" if both else "2025: 432,000 EUR")


def named(name, expert, needs, goal):
    context = "" if needs else JOB.context  # who works on others' results sees no more than these
    what = {"goal": goal, "context": context, "completion_criteria": "The figures are there."}
    return {"id": name, **what, "dependencies": needs, "assigned_expert": expert}


def verdict(complete):
    if complete:
        return {"evaluation": "Both years are there.", "status": "SUCCESS", "lesson": "", "blame": [], "score": 9}
    return {
        "evaluation": "The costs of 2020 are missing.",
        "status": "INPUT_DATA_ERROR",
        "lesson": "Give the figure of every year.",
        "blame": ["costs"],
        "score": 4,
    }


def expert(name, description, instruction, reasoner, criteria=""):
    workflow = BuiltinWorkflow(name=name)
    workflow.add_operator(Operator(OperatorConfig(id=name.lower(), instruction=instruction)))
    if criteria:
        workflow.set_evaluator(Evaluator(OperatorConfig(id="judge", instruction=criteria)))
    return Expert(Profile(name=name, description=description), workflow, reasoner)


def team(reasoner, **options):
    experts = [
        expert("Researcher", "finds figures", "You find the figures that you are asked for.", reasoner),
        expert("Analyst", "calculates", "You work out figures.", reasoner, "There is a result for every year."),
        expert("Writer", "writes", "You write what figures say.", reasoner),
    ]
    return Leader(Profile(name="Editor"), experts, reasoner, **options)


class Count:
    """Counts the executed sub-jobs and the tokens."""

    def __init__(self):
        self.sub_jobs = self.tokens = 0

    def __call__(self, event):
        if isinstance(event, events.OperatorStarted) and len(event.path) == 2:
            self.sub_jobs += 1
        elif isinstance(event, events.ModelAnswered):
            self.tokens += event.usage.tokens


class Tell:
    """Prints what happens among the sub-jobs."""

    def __init__(self):
        self.split_at, self.who, self.begun, self.blamed = 0.0, {}, set(), False

    def __call__(self, event):
        name = event.path[1] if len(event.path) == 2 else ""
        if isinstance(event, events.JobSplit):
            self.split_at = event.time
            self.who = {part.id: part.assigned_expert_name for part in event.sub_jobs}
            for part in event.sub_jobs:
                after = f", after {' and '.join(part.dependencies)}" if part.dependencies else ""
                print(f"{part.id}: {part.goal} ({part.assigned_expert_name}{after})")
        elif isinstance(event, events.OperatorStarted) and name:
            self.say(event, f"{self.who[name]} begins {name}{' again' if name in self.begun else ''}")
            self.begun.add(name)
        elif isinstance(event, events.OperatorFinished) and name:
            self.say(event, f"{self.who[name]} has done {name}: {event.message.text}")
        elif isinstance(event, events.RoundFinished) and event.path == ("leader",) and event.blame:
            self.blamed = True
            self.say(event, f"{event.evaluation} At fault: {' and '.join(event.blame)}. Lesson: {event.lesson}")
        elif isinstance(event, events.RoundStarted) and event.path == ("leader",) and self.blamed:
            kept = [part for part in self.who if part not in event.operators]
            self.say(event, f"to be done: {', '.join(event.operators)}; kept: {', '.join(kept)}")

    def say(self, event, text):
        print(f"{event.time - self.split_at:5.2f} s  {text}")


async def begin_all_over(leader):
    """Do the whole job again with the lesson, as long as somebody finds the data wrong."""
    message = await leader.aexecute(JOB)
    for _ in range(3):
        if message.status is not WorkflowStatus.INPUT_DATA_ERROR:
            break
        leader.fail(JOB.id)
        message = await leader.aexecute(JOB, lesson=message.lesson)


async def main(model):
    reasoner = MonoModelReasoner(model)
    counted, tell = Count(), Tell()
    leader = team(reasoner)
    for listener in (counted, tell):
        leader.workflow.add_listener(listener)
    message = await leader.aexecute(JOB)
    print(f"{message.status.value}: {message.scratchpad}")
    print(f"{counted.sub_jobs} sub-jobs done, {counted.tokens:,} tokens")
    if tell.blamed:
        whole, other = Count(), team(reasoner, life_cycles=1)
        other.workflow.add_listener(whole)
        await begin_all_over(other)
        print(f"beginning all over: {whole.sub_jobs} sub-jobs done, {whole.tokens:,} tokens")


if __name__ == "__main__":
    asked = nullcontext() if os.environ.get("OPENAI_API_KEY") else ScriptedModel(answer)
    with asked as scripted:
        asyncio.run(main(scripted and scripted.model))
