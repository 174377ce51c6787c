# pyright: reportUnusedExpression=false, reportIncompatibleMethodOverride=false, reportArgumentType=false
from dbgpt.core.awel import DAG, MapOperator


def build():
    with DAG("map"):
        end = MapOperator(str.upper)
        MapOperator(lambda text: text.strip()) >> end
    return end
