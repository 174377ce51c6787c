# pyright: reportUnusedExpression=false, reportIncompatibleMethodOverride=false, reportArgumentType=false
from dbgpt.core.awel import DAG, BranchOperator, InputOperator, InputSource, JoinOperator, MapOperator, is_empty_data


def build():
    with DAG("branch and join"):
        branch = BranchOperator({(lambda text: len(text) < 5): "short", (lambda text: len(text) >= 5): "long"})
        end = JoinOperator(
            lambda short, long: [
                "nothing" if value is None or is_empty_data(value) else value for value in (short, long)
            ],
            can_skip_in_branch=False,
        )
        InputOperator(InputSource.from_callable()) >> branch
        branch >> MapOperator(lambda text: f"short: {text}", task_name="short") >> end
        branch >> MapOperator(lambda text: f"long: {text}", task_name="long") >> end
    return end
