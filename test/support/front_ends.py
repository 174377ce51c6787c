"""Front ends in Node.js, with the packages of their protocols."""

import asyncio
import json
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "front_ends"


async def talk(script, url, *turns, headers=None):
    """Return what a front end got for some turns of a user; its packages must be installed."""
    assert (FOLDER / "node_modules").exists(), f"npm ci --prefix {FOLDER}"
    told = json.dumps({"url": url, "headers": headers or {}, "turns": turns})
    process = await asyncio.create_subprocess_exec(
        "node", script, told, cwd=FOLDER, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    return json.loads(out), errors.decode()
