# pyright: reportUnusedExpression=false, reportIncompatibleMethodOverride=false, reportArgumentType=false
from dbgpt.core.awel import (
    DAG,
    InputOperator,
    InputSource,
    MapOperator,
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
    with DAG("map of a stream"):
        end = Listed()
        InputOperator(InputSource.from_callable()) >> Letters() >> MapOperator(str.upper) >> end
    return end
