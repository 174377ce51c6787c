# pyright: reportUnusedExpression=false, reportIncompatibleMethodOverride=false, reportArgumentType=false
from dbgpt.core.awel import DAG, BranchOperator, InputOperator, InputSource, JoinOperator, MapOperator


def build():
    with DAG("branch and join"):
        branch = BranchOperator({(lambda text: len(text) < 5): "short", (lambda text: len(text) >= 5): "long"})
        end = JoinOperator(lambda short, long: type(long).__name__, can_skip_in_branch=False)
        InputOperator(InputSource.from_callable()) >> branch
        branch >> MapOperator(str.upper, task_name="short") >> end
        branch >> MapOperator(str.lower, task_name="long") >> end
    return end
