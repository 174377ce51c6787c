# pyright: reportMissingImports=false, reportOptionalSubscript=false, reportOptionalIterable=false
from app.core.model.job import SubJob
from app.core.reasoner.mono_model_reasoner import MonoModelReasoner
from app.core.workflow.operator import Operator
from app.core.workflow.operator_config import OperatorConfig
from app.plugin.dbgpt.dbgpt_workflow import DbgptWorkflow

from operad.runtime.testing import Say, ScriptedModel


def run():
    workflow = DbgptWorkflow()
    workflow.add_operator(
        Operator(OperatorConfig(instruction="Read.", actions=[], output_schema="{plant: string, height: number}"))
    )
    with ScriptedModel([Say("It is a tall fig."), Say('{"plant": "fig", "height": 7}')]) as model:
        job = SubJob(id="1", session_id="s", goal="fig", context="")
        return workflow.execute(job=job, reasoner=MonoModelReasoner(model.model)).scratchpad
