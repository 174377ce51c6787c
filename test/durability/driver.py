"""Process that drives one run: ``driver.py OPTIONS``, the options as JSON.

It prints one JSON object per line: the start time, then the result or the error.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from graph import build_workflow, job, random_delay, served, throw_into

from operad.runtime import OperadError
from operad.runtime.durable import Ledger


def report(**fields: Any) -> None:
    print(json.dumps(fields), flush=True)


def main() -> None:
    options = json.loads(sys.argv[1])
    run_id = options["run_id"]
    workflow = build_workflow(throw_into(options["journal"]), random_delay(options["seconds"]))
    report(begun=time.time())
    try:
        workflow.keep_in(
            Ledger(options["url"], workers=served(workflow) if options["workers"] else None, limit=options["limit"])
        )
        message = workflow.execute(job(run_id), None, run_id=run_id)  # type: ignore[arg-type]
    except OperadError as error:
        report(error=str(error), kind=type(error).__name__)
        raise SystemExit(1) from None
    report(result=message.model_dump(mode="json"), ended=time.time())


if __name__ == "__main__":
    main()
