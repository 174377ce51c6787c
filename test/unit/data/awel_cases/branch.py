# pyright: reportUnusedExpression=false, reportIncompatibleMethodOverride=false, reportArgumentType=false
from dbgpt.core.awel import DAG, BranchJoinOperator, BranchOperator, InputOperator, InputSource, MapOperator


def build():
    with DAG("branch"):
        branch = BranchOperator({(lambda text: len(text) < 5): "short", (lambda text: len(text) >= 5): "long"})
        end = BranchJoinOperator()
        InputOperator(InputSource.from_callable()) >> branch
        branch >> MapOperator(lambda text: f"short: {text}", task_name="short") >> end
        branch >> MapOperator(lambda text: f"long: {text}", task_name="long") >> end
    return end
