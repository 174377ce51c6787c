# pyright: reportUnusedExpression=false, reportIncompatibleMethodOverride=false, reportArgumentType=false
from dbgpt.core.awel import DAG, HttpTrigger, MapOperator
from pydantic import BaseModel


class Asked(BaseModel):
    plant: str


def build():
    with DAG("http trigger"):
        end = MapOperator(lambda asked: f"a {asked.plant}")
        HttpTrigger("/plants", methods="POST", request_body=Asked) >> MapOperator(lambda text: Asked(plant=text)) >> end
    return end
