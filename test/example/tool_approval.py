"""Tool approval: a person is asked before a tool runs.

OPENAI_API_KEY=… python test/example/tool_approval.py
"""

import asyncio

from operad import Operator, Workflow, events, tool

ORDERS = {"A1": "paid", "A2": "paid"}


@tool
def look_up(order: str) -> str:
    """Look up the state of an order."""
    return ORDERS.get(order, "unknown")


@tool(approve=True)
def refund(order: str) -> str:
    """Refund an order."""
    ORDERS[order] = "refunded"
    return "done"


flow = Workflow(Operator("Do what the customer asks for, with the tools.", tools=[look_up, refund]))


async def main() -> None:
    run = flow.start("Please refund my order A2.")
    async for event in run:
        if isinstance(event, events.Interrupted):
            answer = await asyncio.to_thread(input, f"{event.question}\nyes, no or always: ")
            run.answer({event.interrupt_id: answer})
    print((await run).text)
    print(ORDERS)


if __name__ == "__main__":
    asyncio.run(main())
