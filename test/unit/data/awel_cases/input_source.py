# pyright: reportUnusedExpression=false, reportIncompatibleMethodOverride=false, reportArgumentType=false
from dbgpt.core.awel import DAG, InputOperator, MapOperator, SimpleInputSource


def build():
    with DAG("input source"):
        end = MapOperator(len)
        InputOperator(SimpleInputSource("an elm")) >> end
    return end
