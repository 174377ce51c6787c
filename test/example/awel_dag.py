"""An AWEL DAG that exists already: it runs as it is, its branches at the same time, with an Operad workflow as a node.

    OPENAI_API_KEY=… python test/example/awel_dag.py

It needs dbgpt, which the extra `awel` installs on Python 3.11.
"""

import asyncio

from dbgpt.core.awel import DAG, JoinOperator, MapOperator, TriggerOperator

from operad import Operator, Workflow
from operad.runtime.graph.awel import AwelRunner

letter = Workflow(Operator("Write a letter of thanks with these facts, in one sentence."))


def person(entry: str) -> str:
    return entry.partition("Thanks to ")[2].partition(" for")[0]


def reason(entry: str) -> str:
    return entry.partition(" for ")[2].rstrip(".")


async def write(facts: str) -> str:
    return (await letter.arun(facts)).text


with DAG("thanks"):
    entry = TriggerOperator[str]()
    facts = JoinOperator(lambda who, why: f"{who}, for {why}")
    entry >> MapOperator(person) >> facts
    entry >> MapOperator(reason) >> facts
    thanks = MapOperator(write, runner=AwelRunner())
    facts >> thanks


if __name__ == "__main__":
    print(asyncio.run(thanks.call("Accept files of version 3. Thanks to Nils Berg for the samples.")))
