# pyright: reportUnusedExpression=false, reportIncompatibleMethodOverride=false, reportArgumentType=false
from dbgpt.core.awel import (
    DAG,
    InputOperator,
    InputSource,
    StreamifyAbsOperator,
    TransformStreamAbsOperator,
    UnstreamifyAbsOperator,
)


class Letters(StreamifyAbsOperator):
    async def streamify(self, input_value):
        for letter in input_value:
            yield letter


class Pairs(TransformStreamAbsOperator):
    async def transform_stream(self, input_value):
        before = ""
        async for letter in input_value:
            if before:
                yield before + letter
            before = letter


class Listed(UnstreamifyAbsOperator):
    async def unstreamify(self, input_value):
        return [part async for part in input_value]


def build():
    with DAG("transform"):
        end = Listed()
        InputOperator(InputSource.from_callable()) >> Letters() >> Pairs() >> end
    return end
