"""A worker, to be killed: ``worker.py OPTIONS``, the options as JSON."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys

from graph import Lamed, about, served, throw_into, workflow

from operad.runtime.durable.worker import Worker


def deadly(key: str, else_: Lamed) -> Lamed:
    """An operator with this key is the death of whoever does it."""

    def lamed(at: str) -> float:
        if at == key:
            os.kill(os.getpid(), signal.SIGKILL)
        return else_(at)

    return lamed


async def main() -> None:
    asked = json.loads(sys.argv[1])
    made = workflow(throw_into(asked["journal"]), deadly(asked.get("poison", ""), about(asked["seconds"])))
    worker = Worker(
        asked["url"],
        [served(made)],
        concurrency=asked.get("concurrency", 2),
        limit=asked["limit"],
        version=asked.get("version"),
    )
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await worker.serve(stop, grace=5.0)


if __name__ == "__main__":
    asyncio.run(main())
