# pyright: reportMissingImports=false, reportOptionalSubscript=false, reportOptionalIterable=false
from app.core.model.job import SubJob
from app.core.model.message import WorkflowMessage
from app.core.workflow.operator import Operator
from app.core.workflow.operator_config import OperatorConfig
from app.plugin.dbgpt.dbgpt_workflow import DbgptWorkflow

from operad.runtime.testing import ScriptedReasoner


class Label(Operator):
    async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
        text = f"{self._config.instruction} {self.get_id()} {job.goal}"
        return WorkflowMessage(payload={"scratchpad": text}, job_id=job.id)


def run():
    workflow = DbgptWorkflow()
    workflow.add_operator(Label(OperatorConfig(instruction="Label.", actions=[], output_schema="", id="label")))
    job = SubJob(id="1", session_id="s", goal="fig", context="")
    return workflow.execute(job=job, reasoner=ScriptedReasoner([])).scratchpad
