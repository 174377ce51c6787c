"""Structured output: the answer is an instance of a pydantic model.

OPENAI_API_KEY=… python test/example/structured_output.py
"""

from typing import Literal

from pydantic import BaseModel, Field

from operad import Operator, Workflow, operator


class Ticket(BaseModel):
    topic: Literal["delivery", "refund", "praise"]
    urgency: int = Field(ge=1, le=5)
    summary: str = Field(description="One sentence.")


read = Operator("Read the customer's message.", id="read", output=Ticket)


@operator
def route(read: Ticket) -> str:
    """Choose the queue; the parameter is the answer of the operator 'read'."""
    return f"{read.topic}, {'now' if read.urgency > 3 else 'today'}"


flow = Workflow(read >> route)

if __name__ == "__main__":
    result = flow.run("My parcel is a week late, and I leave tomorrow!")
    print(result.output)
    print(result[read].summary)
