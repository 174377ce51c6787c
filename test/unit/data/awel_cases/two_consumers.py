# pyright: reportUnusedExpression=false, reportIncompatibleMethodOverride=false, reportArgumentType=false
from dbgpt.core.awel import (
    DAG,
    InputOperator,
    InputSource,
    JoinOperator,
    StreamifyAbsOperator,
    UnstreamifyAbsOperator,
)


class Letters(StreamifyAbsOperator):
    async def streamify(self, input_value):
        for letter in input_value:
            yield letter


class Listed(UnstreamifyAbsOperator):
    async def unstreamify(self, input_value):
        return [letter async for letter in input_value]


def build():
    with DAG("two consumers"):
        letters = Letters()
        end = JoinOperator(lambda one, two: [one, two])
        InputOperator(InputSource.from_callable()) >> letters
        letters >> Listed() >> end
        letters >> Listed() >> end
    return end
