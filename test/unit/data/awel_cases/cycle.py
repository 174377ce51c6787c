# pyright: reportUnusedExpression=false, reportIncompatibleMethodOverride=false, reportArgumentType=false
from dbgpt.core.awel import DAG, MapOperator


def build():
    with DAG("cycle"):
        one, two = MapOperator(str.upper, task_name="one"), MapOperator(str.lower, task_name="two")
        one >> two
        two >> one
    return two
