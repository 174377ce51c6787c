"""Tokens and calls of code mode against plain calls of tools, on three tasks.

    python test/benchmark/bench_code_mode.py

The model is scripted, the tools are real: for plain calls, the script makes as few turns as possible, with independent
calls in one turn. So the figures are those of a perfect model in both modes; a real one also writes code that fails.
Tokens are estimated as a quarter of the characters of all requests, with tools and prompts, and of all answers.
"""

import json
from collections.abc import Sequence

from operad import Operator, Workflow, tool
from operad.testing import CallTools, Say, ScriptedModel

CUSTOMERS = [f"customer-{number}" for number in range(20)]


@tool
def customers() -> list[str]:
    """List the customers."""
    return CUSTOMERS


@tool
def orders(customer: str) -> list[dict[str, float]]:
    """List the orders of a customer, with total and weight."""
    number = CUSTOMERS.index(customer)
    return [{"order": 100.0 * number + each, "total": 5.0 * each + number, "weight": 1.5 * each} for each in range(8)]


@tool
def flights(start: str, end: str) -> list[dict[str, str | int]]:
    """List flights with their prices."""
    return [{"flight": f"{start[:2]}{end[:2]}{n}", "price": 90 + (n * 37) % 50, "seats": n % 4} for n in range(30)]


@tool
def reserve(flight: str) -> str:
    """Reserve a seat, and return the reservation."""
    return f"R-{flight}"


@tool
def pay(reservation: str) -> str:
    """Pay a reservation."""
    return f"paid {reservation}"


@tool
def log(day: str) -> str:
    """Return the log of a day."""
    lines = [
        f"{day} 10:{n:02} {'ERROR disk full' if n in (7, 31) else 'INFO request served in 12 ms'}" for n in range(60)
    ]
    return "\n".join(lines)


DAYS = [f"2026-11-{day:02}" for day in range(1, 8)]

Script = Sequence[CallTools]


def code(text: str) -> Script:
    """Return the script of code mode."""
    return [CallTools({"run_code": {"code": text}})]


TASKS: Sequence[tuple[str, str, Sequence[object], Script, Script]] = [
    (
        "sum the orders of 20 customers",
        "the total is 4,320",
        [customers, orders],
        [CallTools({"customers": {}}), CallTools([("orders", {"customer": each}) for each in CUSTOMERS])],
        code(
            "import asyncio\nlists = await asyncio.gather(*(orders(customer=c) for c in await customers()))\n"
            "sum(order['total'] for each in lists for order in each)"
        ),
    ),
    (
        "book the cheapest flight",
        "booked",
        [flights, reserve, pay],
        [
            CallTools({"flights": {"start": "Oslo", "end": "Rome"}}),
            CallTools({"reserve": {"flight": "OsRo23"}}),
            CallTools({"pay": {"reservation": "R-OsRo23"}}),
        ],
        code(
            "found = [f for f in await flights(start='Oslo', end='Rome') if f['seats']]\n"
            "best = min(found, key=lambda f: f['price'])\nawait pay(reservation=await reserve(flight=best['flight']))"
        ),
    ),
    (
        "count the errors of seven days",
        "14 errors",
        [log],
        [CallTools([("log", {"day": day}) for day in DAYS])],
        code(
            f"import asyncio\nlogs = await asyncio.gather(*(log(day=d) for d in {DAYS}))\n"
            "sum(text.count('ERROR') for text in logs)"
        ),
    ),
]


def measure(tools: Sequence[object], script: Script, answer: str, *, code_mode: bool) -> tuple[int, int, str]:
    """Return the estimated tokens, the number of model calls, and the last result of a tool."""
    operator = Operator("Do the task.", tools=tools, code_mode=code_mode)  # pyright: ignore[reportArgumentType]
    with ScriptedModel([*script, Say(answer)]) as endpoint:
        Workflow(operator, model=endpoint.model).run("Do it.")
        requests = endpoint.requests
    said = [*(json.dumps(each.pairs) for each in script), answer]
    characters = sum(len(json.dumps(each)) for each in requests) + sum(map(len, said))
    return characters // 4, len(requests), str(requests[-1]["messages"][-1]["content"])


def main() -> None:
    """Print a table."""
    print("| task | plain: tokens | calls | code: tokens | calls | result of the code |")
    print("|---|---|---|---|---|---|")
    for name, answer, tools, plain, in_code in TASKS:
        tokens, calls, _ = measure(tools, plain, answer, code_mode=False)
        code_tokens, code_calls, result = measure(tools, in_code, answer, code_mode=True)
        print(f"| {name} | {tokens:,} | {calls} | {code_tokens:,} | {code_calls} | {result} |")


if __name__ == "__main__":
    main()
