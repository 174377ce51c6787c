# pyright: reportUnusedExpression=false, reportIncompatibleMethodOverride=false, reportArgumentType=false
from dbgpt.core.awel import DAG, InputOperator, InputSource, MapOperator

from operad import Workflow, operator


@operator
def frame(goal: str) -> str:
    return f"<{goal}>"


def build():
    with DAG("workflow"):
        end = MapOperator(len)
        InputOperator(InputSource.from_callable()) >> MapOperator(str.upper) >> Workflow(frame).as_awel() >> end
    return end
