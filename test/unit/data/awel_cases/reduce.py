# pyright: reportUnusedExpression=false, reportIncompatibleMethodOverride=false, reportArgumentType=false
from dbgpt.core.awel import DAG, InputOperator, InputSource, ReduceStreamOperator, StreamifyAbsOperator


class Letters(StreamifyAbsOperator):
    async def streamify(self, input_value):
        for letter in input_value:
            yield letter


def build():
    with DAG("reduce"):
        end = ReduceStreamOperator(lambda one, two: f"{two}{one}")
        InputOperator(InputSource.from_callable()) >> Letters() >> end
    return end
