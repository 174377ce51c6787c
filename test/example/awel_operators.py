"""AWEL operators in an Operad workflow, and that workflow in an AWEL DAG; a stream passes through both.

    python test/example/awel_operators.py

It needs dbgpt, which the extra `awel` installs on Python 3.11.
"""

# AWEL declares its streaming methods as coroutines:
# pyright: reportIncompatibleMethodOverride=false, reportUnusedExpression=false
import asyncio
from collections.abc import AsyncIterator

from dbgpt.core.awel import DAG, MapOperator, StreamifyAbsOperator, TransformStreamAbsOperator

from operad import Job, Workflow, operator
from operad.runtime.graph.awel import AwelRunner
from operad.runtime.workflow.awel import AwelOperator


class Words(StreamifyAbsOperator[str, str]):
    """A stream of the words of a text."""

    async def streamify(self, input_value: str) -> AsyncIterator[str]:
        for word in input_value.split():
            yield word


class Loud(TransformStreamAbsOperator[str, str]):
    """The same stream in capitals."""

    async def transform_stream(self, input_value: AsyncIterator[str]) -> AsyncIterator[str]:
        async for word in input_value:
            yield word.upper()


@operator
def read(job: Job) -> str:
    return job.goal.removeprefix("Shout: ")


def sentence(loud: list[str]) -> str:  # a stream is a list to other operators
    return " ".join(loud) + "!"


flow = Workflow(read >> AwelOperator(Words()) >> AwelOperator(Loud(), id="loud") >> sentence, name="shout")

with DAG("letters"):
    end = MapOperator(lambda text: f"{text} ({len(text)} letters)", runner=AwelRunner())
    MapOperator(lambda text: f"Shout: {text}") >> flow.as_awel() >> end


if __name__ == "__main__":
    print(flow.run("Shout: the parcel is here").text)
    print(asyncio.run(end.call("thank you")))
