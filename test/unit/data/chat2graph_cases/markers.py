# pyright: reportMissingImports=false, reportOptionalSubscript=false, reportOptionalIterable=false
from app.core.model.job import SubJob
from app.core.reasoner.mono_model_reasoner import MonoModelReasoner
from app.core.workflow.operator import Operator
from app.core.workflow.operator_config import OperatorConfig
from app.plugin.dbgpt.dbgpt_workflow import DbgptWorkflow

from operad.runtime.testing import Say, ScriptedModel

ANSWERS = [
    '<decision>\n{"plant": "fig"}\n</decision>',
    'First I think.\n<final_output>\n```json\n{"plant": "fig"}\n```\n</final_output>',
    '```json\n{"plant": "fig"}\n```',
]


def said(answer):
    workflow = DbgptWorkflow()
    workflow.add_operator(Operator(OperatorConfig(instruction="Read.", actions=[], output_schema="{plant: string}")))
    with ScriptedModel([Say(answer)]) as model:
        job = SubJob(id="1", session_id="s", goal="fig", context="")
        return dict(workflow.execute(job=job, reasoner=MonoModelReasoner(model.model)).outputs)


def run():
    return [said(answer) for answer in ANSWERS]
