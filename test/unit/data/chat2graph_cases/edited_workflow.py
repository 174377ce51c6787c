# pyright: reportMissingImports=false, reportOptionalSubscript=false, reportOptionalIterable=false
from app.core.workflow.operator import Operator
from app.core.workflow.operator_config import OperatorConfig
from app.plugin.dbgpt.dbgpt_workflow import DbgptWorkflow


def run():
    one, two, three = (
        Operator(OperatorConfig(instruction=name, actions=[], output_schema="", id=name)) for name in ("a", "b", "c")
    )
    workflow = DbgptWorkflow()
    workflow.add_operator(two)
    workflow.add_operator(one, next_ops=[two])
    workflow.add_operator(three, previous_ops=[two])
    workflow.remove_operator(three)
    return [each.get_id() for each in workflow.get_operators()]
