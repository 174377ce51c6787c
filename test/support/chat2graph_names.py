"""Operad under the names of Chat2Graph: importing this module makes them importable."""

import sys
from types import ModuleType

from operad.operators import Operator, OperatorConfig
from operad.runtime import Action, DbgptWorkflow, MonoModelReasoner, SubJob, Toolkit, WorkflowMessage, WorkflowStatus


def message(payload, job_id):
    return WorkflowMessage(**payload, job_id=job_id)


for name, content in {
    "app.core.model.job": {"SubJob": SubJob},
    "app.core.model.message": {"WorkflowMessage": message},
    "app.core.reasoner.mono_model_reasoner": {"MonoModelReasoner": MonoModelReasoner},
    "app.core.common.type": {"WorkflowStatus": WorkflowStatus},
    "app.core.toolkit.action": {"Action": Action},
    "app.core.toolkit.toolkit": {"Toolkit": Toolkit},
    "app.core.sdk.init_server": {"init_server": lambda: None},
    "app.core.workflow.operator": {"Operator": Operator},
    "app.core.workflow.operator_config": {"OperatorConfig": OperatorConfig},
    "app.plugin.dbgpt.dbgpt_workflow": {"DbgptWorkflow": DbgptWorkflow},
}.items():
    sys.modules[name] = ModuleType(name)
    vars(sys.modules[name]).update(content)
    while name := name.rpartition(".")[0]:
        sys.modules.setdefault(name, ModuleType(name))
