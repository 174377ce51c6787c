# pyright: reportUnusedExpression=false, reportIncompatibleMethodOverride=false, reportArgumentType=false
from dbgpt.core.awel import DAG, InputOperator, InputSource, MapOperator


class Keep(MapOperator):
    async def map(self, input_value):
        await self.current_dag_context.save_to_share_data("plant", input_value)
        return len(input_value)


class Recall(MapOperator):
    async def map(self, input_value):
        return f"{await self.current_dag_context.get_from_share_data('plant')}: {input_value}"


def build():
    with DAG("share data"):
        end = Recall()
        InputOperator(InputSource.from_callable()) >> Keep() >> end
    return end
