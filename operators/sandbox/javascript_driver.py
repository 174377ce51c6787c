"""Call of a JavaScript snippet's `main` on QuickJS, inside a process that is limited from outside."""

from __future__ import annotations

import json
import re
from typing import Any

_AT = re.compile(r"\(?<input>:(\d+)")

_BEFORE = """\
globalThis.console = Object.fromEntries(
  ["log", "info", "warn", "error", "debug", "trace", "table"].map((name) => [name, () => undefined]));
globalThis.require = (name) => {
  throw new Error(`require(${JSON.stringify(name)}): code nodes have no modules; write it without, or as a tool`) };
"""

_CALL = """\
globalThis.__said = undefined;
Promise.resolve(main(JSON.parse(__arguments))).then(
  (value) => {
    const plain = value !== null && typeof value === "object" && !Array.isArray(value);
    const kind = value === null ? "null" : Array.isArray(value) ? "array" : typeof value;
    __said = JSON.stringify({ text: plain ? JSON.stringify(value) : null, kind });
  },
  (error) => {
    const text = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
    __said = JSON.stringify({ error: text, stack: error instanceof Error ? error.stack : "" });
  });
"""


def call_javascript(code: str, arguments: str, memory_bytes: int) -> dict[str, Any]:
    """Run a snippet and its `main`, which receives the arguments as one object.

    Args:
        code: The snippet.
        arguments: The arguments, as a JSON object.
        memory_bytes: Memory limit of the engine, in bytes.

    Returns:
        `{"text": JSON, "kind": type}` of the returned value, with a text only for an object; or
        `{"error": "Type: message", "line": line}`.
    """
    import importlib

    quickjs: Any = importlib.import_module("quickjs")  # from an extra
    context = quickjs.Context()
    context.set_memory_limit(memory_bytes)
    context.set_max_stack_size(512 * 1024)
    try:
        context.eval(_BEFORE)
        context.eval(code)
        context.set("__arguments", arguments)
        context.eval(_CALL)
        while context.execute_pending_job():
            pass
        outcome = context.eval("__said")
    except quickjs.JSException as error:
        text, _, stack = str(error).partition("\n")
        if text in ("null", "InternalError: out of memory"):
            return {"error": f"out of memory: it wanted more than {memory_bytes:,} bytes, the limit memory_bytes"}
        return {"error": text, "line": _line(stack)}
    if not isinstance(outcome, str):
        return {"error": "main returned a promise that nothing settles", "line": 0}
    result = json.loads(outcome)
    return result if "error" not in result else {"error": str(result["error"]), "line": _line(str(result["stack"]))}


def _line(stack: str) -> int:
    match = _AT.search(stack)
    return int(match[1]) if match else 0
