"""A workflow: operators in a graph, an evaluator whose lesson makes the second round better.

    python test/example/run_workflow.py

Runs on the embedded model, which picks from given choices; `MonoModelReasoner("gpt-5.6")` asks another one, with
OPENAI_API_KEY set.
"""

import json

from operad.evaluators import Evaluator
from operad.operators import Operator, OperatorConfig
from operad.runtime import DbgptWorkflow, Job, MonoModelReasoner, WorkflowMessage, WorkflowStatus

ENTRY = "Accept files of the Paper Crane format, version 3. Thanks to Nils Berg at Amber Gate for the samples."
PHRASES = ["Paper Crane", "Nils Berg", "Amber Gate"]


class PickPerson(Operator):
    """Asks which phrase is a person's name; what verdicts so far rejected is no longer offered."""

    async def run(self, call):
        verdict = call.rejection and call.rejection.verdict
        rejected = verdict.outputs["rejected"] if verdict else ()
        schema = {"enum": [phrase for phrase in PHRASES if phrase not in rejected]}
        config = self.config.model_copy(update={"output_schema": json.dumps(schema)})
        return await Operator(config).run(call)


class WriteThanks(Operator):
    """Needs no model."""

    async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
        [picked] = workflow_messages or []
        person = picked.outputs["output"]
        return WorkflowMessage(scratchpad=f"Thank you, {person}!", outputs={"person": person})


class Judge(Evaluator):
    """Somebody who is thanked stands after "Thanks to". The lesson is said in words, and as data."""

    async def run(self, call):
        [thanks] = call.messages
        person = thanks.outputs["person"]
        rejected = call.rejection.answer.outputs["rejected"] if call.rejection else []
        if f"Thanks to {person}" in call.job.goal:
            return WorkflowMessage(evaluation=f"{person} is thanked in the entry")
        return WorkflowMessage(
            status=WorkflowStatus.EXECUTION_ERROR,
            evaluation=f"the entry does not thank {person}",
            lesson=f"{person} is not the person who is thanked.",
            blame=("pick",),
            outputs={"rejected": [*rejected, person]},
        )


def main() -> None:
    pick = PickPerson(OperatorConfig(instruction="Who is thanked here? Answer as JSON.", id="pick"))
    write = WriteThanks(OperatorConfig(instruction="Write the thanks.", id="write"))

    workflow = DbgptWorkflow(max_rounds=3)
    workflow.add_operator(pick)
    workflow.add_operator(write, previous_ops=[pick])
    workflow.set_evaluator(Judge(OperatorConfig(instruction="Is the right person thanked?", id="judge")))

    job = Job(goal=ENTRY, context="A line of a changelog.")
    message = workflow.execute(job, MonoModelReasoner("embedded"))
    print(message.scratchpad)
    print(message.status.value, "-", message.evaluation)
    print(message.usage.calls, "model calls")


if __name__ == "__main__":
    main()
