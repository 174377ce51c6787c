# pyright: reportUnusedExpression=false, reportIncompatibleMethodOverride=false, reportArgumentType=false
from dbgpt.core.awel import DAG, InputOperator, InputSource, JoinOperator, MapOperator


def build():
    with DAG("join"):
        first = InputOperator(InputSource.from_callable())
        end = JoinOperator(lambda loud, length: f"{loud}, {length} letters")
        first >> MapOperator(str.upper) >> end
        first >> MapOperator(len) >> end
    return end
