"""A lesson: two evaluators judge a letter, one blames an operator in the middle, and only that part runs again.

    python test/example/run_lesson.py

The answers stand in the script, and come over HTTP from a server on this machine. With OPENAI_API_KEY set, the model of
that endpoint is asked instead. The same is then run with evaluators that blame nobody, so that everything runs
again, and both are measured.
"""

import asyncio
import json
import os
from contextlib import contextmanager

from operad.evaluators import Evaluator
from operad.operators import Operator, OperatorConfig
from operad.runtime import BuiltinWorkflow, Job, MonoModelReasoner, WorkflowMessage, WorkflowStatus, events
from operad.testing import Say, ScriptedModel

JOB = Job(
    goal="Write to the members of the boat club about the repair of the jetty.",
    context="Minutes of 3 March. The jetty is closed from 6 to 17 April. Planks cost 1,200, paint 300, and the crane 450 "
    "for each of its two weeks. Ines calls the skippers, Joss orders the planks.",
)
STEPS = {
    "read": ("Say in plain sentences what the minutes decide.", []),
    "dates": ("Say what happens when.", ["read"]),
    "costs": ("List what is paid, and the total.", ["read"]),
    "people": ("Say who does what.", ["read"]),
    "letter": ("Write the letter, in sixty words at most.", ["dates", "costs", "people"]),
}
CRITERIA = "Every figure in the letter follows from the minutes."


class Short(Evaluator):
    """Judges in code."""

    async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
        [letter] = workflow_messages or []
        words = len(letter.scratchpad.split())
        if words <= 60:
            return WorkflowMessage(evaluation=f"{words} words")
        return WorkflowMessage(
            status=WorkflowStatus.EXECUTION_ERROR,
            evaluation=f"{words} words, and at most 60 are wanted",
            lesson="Write sixty words at most.",
            blame=(letter.operator_id,),
        )


def blaming_nobody(kind):
    """An evaluator of that kind which keeps to itself who was at fault."""

    class Nobody(kind):
        async def execute(self, *call, **named):
            return (await super().execute(*call, **named)).model_copy(update={"blame": ()})

    return Nobody


def build(of_kind=lambda kind: kind):
    heard = []
    workflow = BuiltinWorkflow(name="letter", max_rounds=3, listeners=[heard.append])
    operators = {}
    for name, (instruction, before) in STEPS.items():
        operators[name] = Operator(OperatorConfig(id=name, instruction=instruction))
        workflow.add_operator(operators[name], [operators[previous] for previous in before])
    workflow.add_evaluator(of_kind(Short)(OperatorConfig(id="short", instruction="Sixty words at most.")))
    workflow.add_evaluator(of_kind(Evaluator)(OperatorConfig(id="figures", instruction=CRITERIA)))
    return workflow, heard


def played(request):
    """Stand in for a model, which counts one week of the crane until a lesson names the second."""
    instruction = request["messages"][0]["content"].splitlines()[0]
    asked = request["messages"][-1]["content"]
    total = "2,400" if "both weeks" in asked or "2,400" in asked else "1,950"
    if "response_format" in request:
        right = "2,400" in asked
        return Say(
            json.dumps(
                {
                    "evaluation": "The figures follow from the minutes." if right else "The crane stays for two weeks.",
                    "status": "SUCCESS" if right else "EXECUTION_ERROR",
                    "lesson": "" if right else "Count the crane for both weeks.",
                    "blame": [] if right else ["costs"],
                    "score": 9 if right else 4,
                }
            )
        )
    answers = {
        "read": "The jetty is repaired and closed meanwhile. Planks, paint and a crane are paid for. Ines and Joss help.",
        "dates": "The jetty is closed from 6 to 17 April.",
        "costs": f"Planks 1,200, paint 300, crane {'900' if total == '2,400' else '450'}; in all {total}.",
        "people": "Ines calls the skippers, Joss orders the planks.",
        "letter": f"Dear members, the jetty is closed from 6 to 17 April. The repair costs {total}. Ines will call the "
        "skippers; Joss orders the planks. The committee",
    }
    return Say(next(answers[name] for name, (text, _) in STEPS.items() if instruction == text))


@contextmanager
def model():
    if os.environ.get("OPENAI_API_KEY"):
        yield MonoModelReasoner()
    else:
        with ScriptedModel(played) as endpoint:
            yield MonoModelReasoner(endpoint.model)


def executions(heard):
    return sum(isinstance(event, events.OperatorFinished) and event.operator_id in STEPS for event in heard)


def tell(heard):
    for event in heard:
        match event:
            case events.RoundStarted():
                reused = [name for name in STEPS if name not in event.operators]
                print(f"round {event.round} runs {', '.join(event.operators)}", end="")
                print(f" and reuses {', '.join(reused)}" if reused else "")
            case events.RoundFinished():
                print(f"{event.status.value}, blamed: {', '.join(event.blame) or 'nobody'}")
                print("  " + event.evaluation.replace("\n", "\n  "))
                if event.lesson:
                    print(f"  lesson: {event.lesson}")
            case events.RunFinished():
                print(f"\n{event.message.text}")


async def main():
    with model() as reasoner:
        workflow, heard = build()
        message = await workflow.aexecute(JOB, reasoner)
        tell(heard)
        whole, heard_of_whole = build(blaming_nobody)
        message_of_whole = await whole.aexecute(JOB, reasoner)
    ours, all_again = executions(heard), executions(heard_of_whole)
    tokens, all_tokens = message.usage.tokens, message_of_whole.usage.tokens
    print(f"\nwith blame: {ours} executions, {tokens:,} tokens, {message.status.value}")
    print(f"all again:  {all_again} executions, {all_tokens:,} tokens, {message_of_whole.status.value}")
    print(f"saved: {all_again - ours} executions, {all_tokens - tokens:,} tokens")


if __name__ == "__main__":
    asyncio.run(main())
