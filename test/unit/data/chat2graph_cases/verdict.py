# pyright: reportMissingImports=false, reportOptionalSubscript=false, reportOptionalIterable=false
from app.core.common.type import WorkflowStatus
from app.core.model.job import SubJob
from app.core.workflow.operator import Operator
from app.core.workflow.operator_config import OperatorConfig
from app.plugin.dbgpt.dbgpt_workflow import DbgptWorkflow

from operad.evaluators import Evaluator
from operad.runtime import WorkflowMessage
from operad.runtime.testing import ScriptedReasoner


class Judge(Evaluator):
    async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
        good = workflow_messages[0].scratchpad == "an elm"
        status = WorkflowStatus.SUCCESS if good else WorkflowStatus.EXECUTION_ERROR
        return WorkflowMessage(
            scratchpad=workflow_messages[0].scratchpad, status=status, lesson="" if good else "Another."
        )


def run():
    workflow = DbgptWorkflow()
    workflow.add_operator(Operator(OperatorConfig(instruction="Tree.", actions=[], output_schema="", id="tree")))
    workflow.set_evaluator(Judge(OperatorConfig(instruction="Judge.", actions=[], output_schema="")))
    reasoner = ScriptedReasoner({"Tree.": ["a fig"]})
    job = SubJob(id="1", session_id="s", goal="fig", context="")
    said = workflow.execute(job=job, reasoner=reasoner)
    return [said.scratchpad, said.status.value, said.lesson]
