"""The engine at work: a map with retries over orders, a branch, a person who is asked, and a race.

    python test/example/run_orders.py

No operator asks a model here. `ANSWERS` stand in for a person at the terminal.
"""

import asyncio

from operad.runtime import (
    BuiltinWorkflow,
    Job,
    Map,
    MonoModelReasoner,
    Policy,
    Port,
    Retry,
    Timeout,
    WorkflowMessage,
    events,
    interrupt,
)

STOCK = {"figs": 12, "dates": 3, "olives": 0}
ANSWERS = {"approve": True}


class Step:
    """An operator made of a function that takes the messages of those before it."""

    def __init__(self, name, function, ports=()):
        self.name, self.function, self.ports = name, function, ports

    def get_id(self):
        return self.name

    async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
        return await self.function(job, workflow_messages)


class Warehouse:
    """Refuses the first call about each thing, as busy services do."""

    def __init__(self):
        self.asked = set()

    async def count(self, job, messages):
        thing = messages[0].outputs["item"]
        if thing not in self.asked:
            self.asked.add(thing)
            raise ConnectionError("busy")
        return WorkflowMessage(outputs={"thing": thing, "left": STOCK[thing]})


async def sort(job, messages):
    missing = [item["thing"] for item in messages[0].outputs["items"] if not item["left"]]
    return WorkflowMessage(scratchpad=", ".join(missing), ports=("order",) if missing else ("ship",))


async def approve(job, messages):
    return "ordered" if await interrupt(f"Order {messages[0].scratchpad}?", "boolean") else "left out"


async def ship(job, messages):
    return "shipped"


async def by_mail(job, messages):
    await asyncio.sleep(60)
    return "told by mail"


async def by_phone(job, messages):
    return f"told by phone: {messages[0].scratchpad}"


async def done(job, messages):
    return messages[0].scratchpad


def build():
    look_up = BuiltinWorkflow(name="look_up", policy=Policy(retry=Retry(first_delay=0.01), timeout=Timeout(run=5)))
    look_up.add_operator(Step("count", Warehouse().count))

    every = Map("every", look_up, over="things", concurrency=2)
    router = Step("sort", sort, ports=("order", "ship"))
    asks, ships = Step("approve", approve), Step("ship", ship)
    mail, phone = Step("mail", by_mail), Step("phone", by_phone)

    orders = BuiltinWorkflow(name="orders")
    orders.add_operator(every)
    orders.add_operator(router, [every])
    orders.add_operator(asks, [Port(router, "order")])
    orders.add_operator(ships, [Port(router, "ship")])
    orders.add_operator(mail, [asks, ships])
    orders.add_operator(phone, [asks, ships])
    orders.add_operator(Step("done", done), [mail, phone], join="any")
    return orders


async def main():
    orders = build()
    job = Job(goal="", inputs={"things": list(STOCK)})
    stream = orders.stream(job, MonoModelReasoner())  # no operator asks a model, so none need be configured
    async for event in stream:
        where = "/".join(event.path)
        match event:
            case events.OperatorRetried():
                print(f"{where}: {event.error}, again")
            case events.OperatorSkipped():
                print(f"{where}: skipped, {event.reason}")
            case events.Interrupted():
                print(f"{where}: {event.question}")
                stream.answer({event.interrupt_id: ANSWERS[event.interrupt_id]})
            case events.OperatorCancelled():
                print(f"{where}: stopped")
            case events.RunFinished():
                print(event.message.text)


if __name__ == "__main__":
    asyncio.run(main())
