# pyright: reportMissingImports=false, reportOptionalSubscript=false, reportOptionalIterable=false
from app.core.model.job import SubJob
from app.core.model.message import WorkflowMessage
from app.core.workflow.operator import Operator
from app.core.workflow.operator_config import OperatorConfig
from app.plugin.dbgpt.dbgpt_workflow import DbgptWorkflow

from operad.runtime.testing import ScriptedReasoner


class Join(Operator):
    async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
        said = ", ".join(message.scratchpad for message in workflow_messages)
        return WorkflowMessage(payload={"scratchpad": said}, job_id=job.id)


def operator(of, instruction):
    return of(OperatorConfig(instruction=instruction, actions=[], output_schema=""))


def run():
    tree, soil, joined = operator(Operator, "Tree."), operator(Operator, "Soil."), operator(Join, "Join.")
    workflow = DbgptWorkflow()
    workflow.add_operator(tree)
    workflow.add_operator(soil)
    workflow.add_operator(joined, previous_ops=[tree, soil])
    job = SubJob(id="1", session_id="s", goal="fig", context="")
    return workflow.execute(job=job, reasoner=ScriptedReasoner({"Tree.": "a fig", "Soil.": "sand"})).scratchpad
