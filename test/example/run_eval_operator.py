"""An evaluator judges what operators made: one in code, and one that asks the model.

    python test/example/run_eval_operator.py

The embedded model cannot judge, so only the code does. With OPENAI_API_KEY and OPERAD_MODEL set, that model is asked
as well.
"""

import asyncio
import os

from operad.evaluators import Evaluator
from operad.operators import OperatorConfig
from operad.runtime import Job, MonoModelReasoner, WorkflowMessage, WorkflowStatus

JOB = Job(goal="Name three of the planets.")
ANSWER = WorkflowMessage(scratchpad="Mercury, Venus and Pluto.", operator_id="answer")
PLANETS = {"Mercury", "Venus", "Earth", "Mars", "Jupiter", "Saturn", "Uranus", "Neptune"}


class OnlyPlanets(Evaluator):
    """Judges in code: the same four fields, no model."""

    async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
        [answer] = workflow_messages or []
        named = {word.strip(",.") for word in answer.scratchpad.split()} - {"and"}
        wrong = sorted(named - PLANETS)
        return WorkflowMessage(
            status=WorkflowStatus.EXECUTION_ERROR if wrong else WorkflowStatus.SUCCESS,
            evaluation=f"{len(named & PLANETS)} of {len(named)} are planets",
            lesson=f"Not planets: {', '.join(wrong)}." if wrong else "",
            blame=(answer.operator_id,) if wrong else (),
        )


async def main() -> None:
    reasoner = MonoModelReasoner(os.environ.get("OPERAD_MODEL", "embedded"))
    config = OperatorConfig(instruction="Three are named, and each is a planet of the sun.")
    evaluators: list[Evaluator] = [OnlyPlanets(config)]
    if reasoner.writes_prose:
        evaluators.append(Evaluator(config))
    else:
        print(f"{reasoner.describe()}, cannot judge: only code does")
    for evaluator in evaluators:
        verdict = await evaluator.execute(reasoner, JOB, workflow_messages=[ANSWER])
        print(f"{type(evaluator).__name__}: {verdict.status.value}")
        print(f"  evaluation: {verdict.evaluation}")
        print(f"  lesson: {verdict.lesson}")
        print(f"  blame: {list(verdict.blame)}")


if __name__ == "__main__":
    asyncio.run(main())
