"""Call of a snippet's `main` inside an interpreter that is limited from outside; this file is run there as it is."""

from __future__ import annotations

import json
import traceback
from typing import Any

_FILE = "<snippet>"


def call_main(code: str, arguments: dict[str, Any], by_position: list[str], *, awaited: bool) -> dict[str, Any]:
    """Run a snippet and its `main`.

    Args:
        by_position: Names of the arguments that are given by position.
        awaited: True if `main` is async.

    Returns:
        `{"text": JSON, "kind": type}` of the returned value, with a text only for a dict; or
        `{"error": "Type: message", "line": line, "returned": True if main had returned}`.
    """
    namespace: dict[str, Any] = {"__name__": "__main__", "__builtins__": __builtins__}
    called = False
    try:
        exec(compile(code, _FILE, "exec"), namespace)  # noqa: S102 - what the process is for
        placed = [arguments.pop(name) for name in by_position if name in arguments]
        returned = namespace["main"](*placed, **arguments)
        if awaited:
            import asyncio

            returned = asyncio.run(returned)
        called = True
        text = json.dumps(returned, allow_nan=False) if isinstance(returned, dict) else None
        return {"text": text, "kind": type(returned).__name__}  # pyright: ignore[reportUnknownArgumentType]
    except MemoryError:
        return {"error": "MemoryError", "line": 0}
    except BaseException as error:  # noqa: BLE001 - SystemExit of a snippet is its failure, too
        lines = [frame.lineno or 0 for frame in traceback.extract_tb(error.__traceback__) if frame.filename == _FILE]
        message = str(error)
        kind = type(error).__name__
        return {
            "error": f"{kind}: {message}" if message else kind,
            "line": lines[-1] if lines else 0,
            "returned": called,
        }
