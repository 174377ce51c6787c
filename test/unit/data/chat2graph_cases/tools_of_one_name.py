# pyright: reportMissingImports=false, reportOptionalSubscript=false, reportOptionalIterable=false
from app.core.model.job import SubJob
from app.core.reasoner.mono_model_reasoner import MonoModelReasoner
from app.core.toolkit.action import Action
from app.core.workflow.operator import Operator
from app.core.workflow.operator_config import OperatorConfig
from app.plugin.dbgpt.dbgpt_workflow import DbgptWorkflow

from operad.runtime.testing import Say, ScriptedModel


class Search:
    def __init__(self, place):
        self.name, self.description, self.place = "search", "Search a place.", place

    async def function(self, words: str) -> str:
        return f"{self.place}: {words}"


def run():
    action = Action(id="look up", name="look up", description="", tools=[Search("garden"), Search("field")])
    workflow = DbgptWorkflow()
    workflow.add_operator(Operator(OperatorConfig(instruction="Check.", actions=[action], output_schema="")))
    with ScriptedModel([Say("done")]) as model:
        job = SubJob(id="1", session_id="s", goal="fig", context="")
        return workflow.execute(job=job, reasoner=MonoModelReasoner(model.model)).scratchpad
