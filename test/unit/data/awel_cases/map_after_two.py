# pyright: reportUnusedExpression=false, reportIncompatibleMethodOverride=false, reportArgumentType=false
from dbgpt.core.awel import DAG, InputOperator, InputSource, MapOperator


def build():
    with DAG("map after two"):
        first = InputOperator(InputSource.from_callable())
        end = MapOperator(str.upper, task_id="end")
        first >> MapOperator(str.upper) >> end
        first >> MapOperator(str.lower) >> end
    return end
