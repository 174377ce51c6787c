# pyright: reportUnusedExpression=false, reportIncompatibleMethodOverride=false, reportArgumentType=false
import asyncio

from dbgpt.core.awel import DAG, InputOperator, InputSource, JoinOperator, MapOperator


def build():
    story = []

    def step(name):
        async def run(_):
            story.append(f"{name} begins")
            await asyncio.sleep(0)
            story.append(f"{name} ends")

        return MapOperator(run)

    with DAG("order"):
        first = InputOperator(InputSource.from_callable())
        end = JoinOperator(lambda *_: story)
        first >> step("one") >> end
        first >> step("two") >> end
    return end
