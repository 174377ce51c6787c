"""Process of one of several servers: ``served.py OPTIONS``, the options as JSON.

It serves the workflow `order`, whose middle operator asks a person, and the schedule of ``minutes.yaml``.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

from graph import random_delay, throw_into

from operad import Job, RunContext, Workflow, operator

_OPTIONS = "OPERAD_OF_TRIAL"


def _throw(key: str) -> str:
    return throw_into(json.loads(os.environ[_OPTIONS])["journal"])(key)


async def _work(key: str) -> str:
    token = _throw(key)
    await asyncio.sleep(random_delay(json.loads(os.environ[_OPTIONS])["seconds"])(key))
    return token


@operator
async def draw(job: Job) -> str:
    return await _work(f"{job.goal}/draw")


@operator
async def pay(job: Job, draw: str, context: RunContext) -> str:
    return f"{draw} {await context.ask(f'What do you pay for {job.goal}?', int)}"


@operator
async def ship(job: Job, pay: str) -> str:
    return f"{pay} {await _work(f'{job.goal}/ship')}"


order = Workflow(draw >> pay >> ship, name="order")


def main() -> None:
    from operad.cli.entry import main as operad

    options = os.environ[_OPTIONS] = sys.argv[1]
    sys.stdout = sys.stderr
    minutes = str(Path(__file__).with_name("minutes.yaml"))
    sys.argv = ["operad", "serve", "served:order", minutes, "--port", "0", "--grace", "0"]
    sys.argv += ["--db", json.loads(options)["url"]]
    operad()


if __name__ == "__main__":
    main()
