"""Process of one worker: ``worker.py OPTIONS``, the options as JSON."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys

from graph import Delay, build_workflow, random_delay, served, throw_into

from operad.runtime.durable.worker import Worker


def deadly(poison: str, delay: Delay) -> Delay:
    """Return the delay, but kill this process when the operator with the key `poison` asks for it."""

    def delay_or_die(key: str) -> float:
        if key == poison:
            os.kill(os.getpid(), signal.SIGKILL)
        return delay(key)

    return delay_or_die


async def main() -> None:
    options = json.loads(sys.argv[1])
    delay = deadly(options.get("poison", ""), random_delay(options["seconds"]))
    workflow = build_workflow(throw_into(options["journal"]), delay)
    worker = Worker(
        options["url"],
        [served(workflow)],
        concurrency=options.get("concurrency", 2),
        limit=options["limit"],
        version=options.get("version"),
    )
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await worker.serve(stop, grace=5.0)


if __name__ == "__main__":
    asyncio.run(main())
