"""A process that drives one run, to be killed: ``driver.py OPTIONS``, the options as JSON.

It prints one JSON value a line: when the run is begun or gone on with, and what came of it.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from graph import about, job, served, throw_into, workflow

from operad.runtime import OperadError
from operad.runtime.durable import Ledger


def say(**said: Any) -> None:
    print(json.dumps(said), flush=True)


def main() -> None:
    asked = json.loads(sys.argv[1])
    run_id = asked["run_id"]
    made = workflow(throw_into(asked["journal"]), about(asked["seconds"]))
    say(begun=time.time())
    try:
        made.keep_in(Ledger(asked["url"], workers=served(made) if asked["workers"] else None, limit=asked["limit"]))
        message = made.execute(job(run_id), None, run_id=run_id)  # type: ignore[arg-type]
    except OperadError as error:
        say(error=str(error), kind=type(error).__name__)
        raise SystemExit(1) from None
    say(result=message.model_dump(mode="json"), ended=time.time())


if __name__ == "__main__":
    main()
