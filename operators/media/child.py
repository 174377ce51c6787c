"""Execution of a program as a child process, with a time limit: bytes in, bytes out."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from operad.operators.media.errors import MediaError

_SCRIPT = """\
import json, sys
memory, read, root = json.loads(sys.argv.pop(1))
sys.path.append(root)
from operad.runtime.barrier import confine
try:
    import resource
except ImportError:  # Windows
    memory = 0
if memory:
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
with open(sys.argv[1], encoding="utf-8") as file:
    program = compile(file.read(), sys.argv[1], "exec")
confine(read=read, write=["."])
exec(program, {"__name__": "__main__", "__file__": sys.argv[1]})
"""
"""Program that runs a file within a memory limit, confined by the kernel to its folder, Python's and the given paths.

Unlike `python FILE`, it does not add the folder of the file to the import path.
"""


async def run(what: str, command: Sequence[str | Path], given: bytes, *, seconds: float) -> bytes:
    """Run a program in an empty temporary folder.

    Args:
        what: Description of the task, for errors.
        command: The program and its arguments.
        given: Content of stdin.
        seconds: Time limit. The program is killed after it, or when the call is cancelled.

    Returns:
        Content of stdout.

    Raises:
        MediaError: The program failed, or took too long. The message ends with the content of stderr.
    """
    with TemporaryDirectory(prefix="operad-", ignore_cleanup_errors=True) as folder:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=pipe, cwd=folder)
        try:
            stdout, stderr = await asyncio.wait_for(process.communicate(given), seconds)
        except TimeoutError as error:
            raise MediaError(f"{what}: took more than {seconds:g} s and was stopped; is the text too long?") from error
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    if process.returncode:
        reason = " ".join(stderr.decode(errors="replace").split())[-500:]
        raise MediaError(f"{what}: {reason or f'its program ended with code {process.returncode}'}")
    return stdout


def python(script: str, memory: int = 0, read: Sequence[str | Path] = ()) -> list[str]:
    """Return the command that runs a Python file of this folder.

    Args:
        memory: Memory limit in bytes, if the system supports one; 0 for none.
        read: Files and folders that the program reads, beside those of Python and the fonts of the system.
    """
    here = Path(__file__)
    settings = json.dumps([memory, [str(path) for path in read], str(here.parents[3])])
    return [sys.executable, "-c", _SCRIPT, settings, str(here.with_name(script))]
