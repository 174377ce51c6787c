"""An assistant: typed output, approval of a tool, an evaluator, and a stream, in one program.

OPENAI_API_KEY=… python test/example/assistant.py
"""

from pydantic import BaseModel, Field

from operad import Evaluator, Operator, Workflow, events, tool

PRICES = {"Oslo": 40.0, "Rome": 90.0}


class Trip(BaseModel):
    city: str
    nights: int = Field(ge=1)
    text: str


@tool
def price(city: str) -> float:
    """Return the price of a night, in euros."""
    return PRICES[city]


def is_expensive(city: str, nights: int) -> bool:
    return PRICES[city] * nights > 100


@tool(approve=is_expensive)
def book(city: str, nights: int) -> str:
    """Book a hotel."""
    return f"{nights} nights in {city} are booked"


agent = Operator("Book the trip that the user asks for.", id="agent", output=Trip, tools=[price, book])
judge = Evaluator("The text names the city, the nights and the total price.", id="judge")
assistant = Workflow(agent, evaluator=judge, name="assistant")


def main() -> None:
    stream = assistant.stream("Two nights in Rome, please.")
    for event in stream:
        if isinstance(event, events.TokenStreamed) and event.operator_id == "agent":  # its answer, as JSON
            print(event.text, end="", flush=True)
        elif isinstance(event, events.ToolCalled):
            print(f"{event.tool}({event.arguments})")
        elif isinstance(event, events.Interrupted):
            stream.answer({event.interrupt_id: input(f"{event.question}\n")})
        elif isinstance(event, events.RoundFinished):
            print(f"\nround {event.round}: {'accepted' if event.accepted else 'rejected'}. {event.evaluation}")
    trip = stream.result.output  # a Trip, for type checkers too
    print(f"{trip.nights} nights in {trip.city}:", trip.text)


if __name__ == "__main__":
    main()
