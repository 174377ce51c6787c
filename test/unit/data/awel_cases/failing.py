# pyright: reportUnusedExpression=false, reportIncompatibleMethodOverride=false, reportArgumentType=false
from dbgpt.core.awel import DAG, InputOperator, InputSource, MapOperator


def fail(text):
    raise LookupError(f"no {text}")


def build():
    with DAG("failing"):
        end = MapOperator(str.upper)
        InputOperator(InputSource.from_callable()) >> MapOperator(fail) >> end
    return end
