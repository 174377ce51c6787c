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

_ENGINE = """\
(() => {
  const { JSON: { parse, stringify }, Error, String, eval: evaluate } = globalThis;  // as they are before the snippet
  let outcome;
  const failure = (thrown) => {
    let error = "an exception that has no text", stack = "";
    try {
      const isError = thrown instanceof Error;
      error = isError ? `${thrown.name}: ${thrown.message}` : String(thrown);
      stack = isError ? `${thrown.stack}` : "";
    } catch { }
    return { __proto__: null, error, stack, isNull: thrown === null };
  };
  const success = (value) => {
    if (value === null || typeof value !== "object")
      return { __proto__: null, text: null, kind: value === null ? "null" : typeof value };
    const text = stringify(value);  // of what `toJSON` returns, if there is one
    const json = text === undefined ? undefined : parse(text);
    const kind = json === null ? "null" : text?.[0] === "[" ? "array" : typeof json;
    return { __proto__: null, text: kind === "object" ? text : null, kind };
  };
  const run = async (code, text) => {
    try {
      outcome = stringify(success(await evaluate(`${code}\\n;main`)(parse(text))));
    } catch (thrown) {
      outcome = stringify(failure(thrown));
    }
  };
  return (...task) => task.length ? void run(...task) : outcome;
})()
"""
"""Function that runs a snippet with arguments, or without arguments returns the outcome as JSON.

Snippets can change all globals and prototypes; this function uses none of them afterwards.
"""


def call_javascript(code: str, arguments: str, memory_bytes: int) -> dict[str, Any]:
    """Run a snippet and its `main`, which receives the arguments as one object.

    Args:
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
        engine = context.eval(_ENGINE)
        engine(code, arguments)
        while context.execute_pending_job():
            pass
        outcome = engine()
    except quickjs.JSException as error:
        text, _, stack = str(error).partition("\n")
        result = {"error": text, "stack": stack, "isNull": text == "null"}
    else:
        if not isinstance(outcome, str):
            return {"error": "main returned a promise that nothing settles", "line": 0}
        result = json.loads(outcome)
    if "error" not in result:
        return result
    text = str(result["error"])
    limit = f"{memory_bytes:,} bytes, the limit memory_bytes"
    if text == "InternalError: out of memory":
        text = f"out of memory: it wanted more than {limit}"
    elif result["isNull"]:  # if not even an error fits into memory, QuickJS throws null, too
        text = f"null was thrown: by the snippet, or by the engine because it wanted more than {limit}"
    return {"error": text, "line": _line(str(result["stack"]))}


def _line(stack: str) -> int:
    match = _AT.search(stack)
    return int(match[1]) if match else 0
