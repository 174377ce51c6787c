# pyright: reportUnusedExpression=false, reportIncompatibleMethodOverride=false, reportArgumentType=false
from dbgpt.core.awel import DAG, MapOperator, TriggerOperator


def build():
    with DAG("trigger"):
        end = MapOperator(str.title)
        TriggerOperator() >> end
    return end
