# pyright: reportUnusedExpression=false, reportIncompatibleMethodOverride=false, reportArgumentType=false
from dbgpt.core.awel import DAG, InputOperator, InputSource, StreamifyAbsOperator, UnstreamifyAbsOperator


class Letters(StreamifyAbsOperator):
    async def streamify(self, input_value):
        for letter in input_value:
            yield letter


class Listed(UnstreamifyAbsOperator):
    async def unstreamify(self, input_value):
        return [letter async for letter in input_value]


def build():
    with DAG("streams"):
        end = Listed()
        InputOperator(InputSource.from_callable()) >> Letters() >> end
    return end
