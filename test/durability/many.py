"""Process that drives many runs at once, which end at the same time: ``many.py OPTIONS``, the options as JSON.

It prints one JSON object per line: the start time, then the results of all runs or the first error.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

from graph import throw_into

from operad import Job, Workflow, operator
from operad.runtime import OperadError
from operad.runtime.durable import Ledger


def report(**fields: Any) -> None:
    print(json.dumps(fields), flush=True)


async def drive(options: dict[str, Any], ledger: Ledger) -> list[str]:
    throw, together = throw_into(options["journal"]), time.monotonic() + options["seconds"]

    @operator
    async def first(job: Job) -> str:
        return throw(f"{job.goal}/first")

    @operator
    async def second(job: Job, first: str) -> str:
        await asyncio.sleep(max(0.0, together - time.monotonic()))
        return f"{first} {throw(f'{job.goal}/second')}"

    workflow = Workflow(first >> second, name="many", durable=ledger)
    ids = [f"{options['run_id']}-{number}" for number in range(options["runs"])]
    return [result.text for result in await asyncio.gather(*(workflow.arun(each, run_id=each) for each in ids))]


def main() -> None:
    options = json.loads(sys.argv[1])
    report(begun=time.time())
    try:
        with Ledger(options["url"], limit=options["limit"]) as ledger:
            results = asyncio.run(drive(options, ledger))
    except OperadError as error:
        report(error=str(error), kind=type(error).__name__)
        raise SystemExit(1) from None
    report(result=results)


if __name__ == "__main__":
    main()
