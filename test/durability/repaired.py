"""Process that drives one run whose answer is rejected once: ``repaired.py OPTIONS``, the options as JSON.

An operator buys a token with a tool and leaves it out of its answer, and an evaluator rejects the answer. The operator
can give the token only in the conversation in which it was bought. It prints one JSON object per line: the start time,
then the result or the error.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from typing import Any

from driver import report
from graph import random_delay, throw_into

from operad import FaultError, Operator, Workflow, tool
from operad.runtime import OperadError
from operad.runtime.durable import Ledger
from operad.testing import CallTools, Say, ScriptedModel


def answer(request: Mapping[str, Any], seconds: float) -> Say | CallTools:
    """Return the model's turn: it depends on the conversation alone, so that each process has the same model."""
    time.sleep(seconds)
    messages = request["messages"]
    if "Sum up." in messages[0]["content"]:
        return Say(f"In short: {messages[-1]['content'].split('```')[1].strip()}")
    bought = [message["content"] for message in messages if message["role"] == "tool"]
    if not bought:
        return CallTools({"buy": {"doi": "10.1"}})
    is_repair = "rejected" in messages[-1]["content"]
    return Say(f"Argon [{bought[-1]}]." if is_repair else "Argon.")


def main() -> None:
    options = json.loads(sys.argv[1])
    run_id, throw, delay = options["run_id"], throw_into(options["journal"]), random_delay(options["seconds"])

    @tool
    def buy(doi: str) -> str:
        """Buy a paper."""
        return throw("buy")

    def sourced(answer: str) -> None:
        throw("verdict")
        if "[" not in answer:
            raise FaultError("no source", lesson="Name the source.", blame=["research"])

    report(begun=time.time())
    research, brief = Operator("Answer.", id="research", tools=[buy]), Operator("Sum up.", id="brief")
    try:
        with (
            Ledger(options["url"], limit=options["limit"]) as ledger,
            ScriptedModel(lambda request: answer(request, delay(run_id))) as endpoint,
        ):
            flow = Workflow(research >> brief, evaluator=sourced, name="repaired", durable=ledger)
            result = flow.run("Which gas?", model=endpoint.model, run_id=run_id)
    except OperadError as error:
        report(error=str(error), kind=type(error).__name__)
        raise SystemExit(1) from None
    report(result=result.text, rounds=result.rounds, status=result.status.value)


if __name__ == "__main__":
    main()
