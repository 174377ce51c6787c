# pyright: reportMissingImports=false, reportOptionalSubscript=false, reportOptionalIterable=false
from app.core.model.job import SubJob
from app.core.workflow.operator import Operator
from app.core.workflow.operator_config import OperatorConfig
from app.plugin.dbgpt.dbgpt_workflow import DbgptWorkflow

from operad.runtime.testing import ScriptedReasoner


def run():
    one, two = (
        Operator(OperatorConfig(instruction=name, actions=[], output_schema="", id=name)) for name in ("tree", "soil")
    )
    workflow = DbgptWorkflow()
    workflow.add_operator(one)
    workflow.add_operator(two)
    job = SubJob(id="1", session_id="s", goal="fig", context="")
    said = workflow.execute(job=job, reasoner=ScriptedReasoner({"tree": "a fig", "soil": "sand"}))
    return said.scratchpad
