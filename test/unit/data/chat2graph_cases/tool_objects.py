# pyright: reportMissingImports=false, reportOptionalSubscript=false, reportOptionalIterable=false
from app.core.model.job import SubJob
from app.core.reasoner.mono_model_reasoner import MonoModelReasoner
from app.core.toolkit.action import Action
from app.core.workflow.operator import Operator
from app.core.workflow.operator_config import OperatorConfig
from app.plugin.dbgpt.dbgpt_workflow import DbgptWorkflow

from operad.runtime.testing import CallTools, Say, ScriptedModel


class Height:
    def __init__(self):
        self.name, self.description, self.function = "height", "Look the height of a plant up.", self.look_up

    async def look_up(self, plant: str) -> str:
        """Look the height up.

        Args:
            plant (str): The plant.
        """
        return f"{plant}: 7 m"


def run():
    action = Action(id="look up", name="look up", description="Look it up.", tools=[Height()])
    workflow = DbgptWorkflow()
    workflow.add_operator(Operator(OperatorConfig(instruction="Check.", actions=[action], output_schema="")))
    with ScriptedModel([CallTools([("height", {"plant": "fig"})]), Say("tall")]) as model:
        job = SubJob(id="1", session_id="s", goal="fig", context="")
        said = workflow.execute(job=job, reasoner=MonoModelReasoner(model.model)).scratchpad
    return [
        said,
        model.requests[0]["tools"][0]["function"]["description"],
        model.requests[1]["messages"][-1]["content"],
    ]
