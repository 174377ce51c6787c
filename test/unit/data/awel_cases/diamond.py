# pyright: reportUnusedExpression=false, reportIncompatibleMethodOverride=false, reportArgumentType=false
from dbgpt.core.awel import DAG, InputOperator, InputSource, JoinOperator, MapOperator


def build():
    ran = []
    with DAG("diamond"):
        first = MapOperator(lambda text: ran.append(text) or text)
        end = JoinOperator(lambda one, two: [one, two, len(ran)])
        InputOperator(InputSource.from_callable()) >> first
        first >> MapOperator(str.upper) >> end
        first >> MapOperator(len) >> end
    return end
