# pyright: reportMissingImports=false, reportOptionalSubscript=false, reportOptionalIterable=false
from app.core.model.job import SubJob
from app.core.workflow.operator import Operator
from app.core.workflow.operator_config import OperatorConfig
from app.plugin.dbgpt.dbgpt_workflow import DbgptWorkflow

from operad.runtime.testing import ScriptedReasoner

CALLS = []


class Fails(Operator):
    async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
        CALLS.append(job.goal)
        raise OSError("no water")


def run():
    workflow = DbgptWorkflow()
    workflow.add_operator(Fails(OperatorConfig(instruction="Fail.", actions=[], output_schema="")))
    try:
        workflow.execute(job=SubJob(id="1", session_id="s", goal="x", context=""), reasoner=ScriptedReasoner([]))
    except OSError:
        return len(CALLS)
