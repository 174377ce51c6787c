# pyright: reportUnusedExpression=false, reportIncompatibleMethodOverride=false, reportArgumentType=false
from dbgpt.core.awel import DAG, BranchOperator, InputOperator, InputSource, MapOperator


def build():
    with DAG("skipped end"):
        end = MapOperator(str.upper, task_name="loud")
        (
            InputOperator(InputSource.from_callable())
            >> BranchOperator({(lambda text: False): "loud"}, task_name="volume")
            >> end
        )
    return end
