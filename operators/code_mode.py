"""Code mode: the model writes Python that calls the tools of its operator, in the sandbox of code nodes.

The model gets one tool, `run_code`, and the signatures of the operator's tools as Python stubs. Each call in its code is
a call of the tool as any other: validated, approved, limited in time, and reported as events.
"""

from __future__ import annotations

import asyncio
import builtins
import inspect
import json
import keyword
import re
import time
import typing
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, cast

from pydantic import TypeAdapter

from operad.operators.sandbox.snippet import MODULES
from operad.runtime.events import ToolCalled, ToolReturned, current_scope, emit
from operad.runtime.events.interrupts import in_tool_call, is_cancelled, model_of_tool_call, tool_call_of
from operad.runtime.events.journal import numbered, part_of_work
from operad.runtime.events.run_context import lacks_deps
from operad.runtime.reasoning.tool_results import MAX_RESULT
from operad.runtime.tools.tool import Tool
from operad.runtime.values.blob import Blobs
from operad.runtime.values.errors import BudgetError, ToolError, describe, internal_text, shorten
from operad.runtime.values.json_schema import Schema
from operad.runtime.values.message import new_id
from operad.runtime.values.model_text import as_text, plain
from operad.runtime.values.text import cut, fence, whole

_RETURNED = TypeAdapter(list[Any])

MAX_CALLS = 1_000
"""Maximum number of calls of tools in one run of code."""

MAX_PRINTED = 1_000_000
"""Maximum number of characters that one run of code prints; the rest is left out, which the model is told."""

MAX_PASSED = 16_000_000
"""Maximum number of characters that one run of code passes to tools and gets from them, as JSON."""

_DEEPEST = 8
"""Depth of a schema from which types are `Any`."""

_MOST_TYPES = 5_000
"""Maximum number of parts of schemas that are written as types; schemas of servers may refer to themselves endlessly."""

_LONGEST_DOC = 1_000

_GUIDE = """\
## Code
Use the functions below by Python code that you give to run_code. Await each call, such as `await f(x=1)`, and calls that \
do not depend on each other by `asyncio.gather`. Do as much as possible in one run: loop, filter and combine results in \
the code, and print only what you need to know; you see what is printed and the value of the last expression. A call that \
fails raises RuntimeError. Each run starts anew. The code has no files, no network and no further packages.
"""


def code_guide(tools: Sequence[Tool]) -> str:
    """Return the part of a prompt with the stubs of tools; it is the same for every job."""
    return _GUIDE + fence(stubs(tools)).replace("\n", "python\n", 1)  # a description cannot end the fence


def code_tool(tools: Sequence[Tool]) -> Tool:
    """Return the tool that runs code which calls these tools."""
    return Tool.of(_Code(tools).run_code)


class _Code:
    """Runner of code that calls tools."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._tools = dict(zip(_names(tools), tools, strict=True))

    async def run_code(self, code: str) -> str:
        """Run Python code that calls the functions of the prompt with await; returns what it prints and its last value.

        Args:
            code: The code, in which top-level await is allowed.
        """
        from operad.operators.sandbox.monty import run_with  # not at import: few operators run code

        run = _Run()
        functions = {name: run.function(tool) for name, tool in self._tools.items()}
        try:
            value = await run_with(code, functions, run.print)
        finally:
            await run.end()
            if run.fatal is not None:
                raise run.fatal
        last = "" if value is None else cut(as_text(value), MAX_PRINTED)
        told = "\n".join(filter(None, [run.printed, last])) or "(no output: print what you need to know)"
        return f"{told}\n({run.note})" if run.note else told


class _Run:
    """One run of code.

    Attributes:
        fatal: Error of a call that the code must not handle.
        note: Note on calls that had not returned when the code ended; empty without any.
    """

    def __init__(self) -> None:
        self.fatal: Exception | None = None
        self._calls = 0
        self._passed = 0
        self.note = ""
        self._tasks: dict[asyncio.Task[Any], str] = {}
        self._printed: list[str] = []
        self._written = 0

    def print(self, text: str) -> None:
        """Keep what the code prints, as much as the model is told."""
        self._printed.append(text[: max(0, MAX_PRINTED - self._written)])
        self._written += len(text)

    @property
    def printed(self) -> str:
        """Text that the code printed."""
        left_out = self._written - MAX_PRINTED
        rest = f"\n({left_out:,} further characters are left out)" if left_out > 0 else ""
        return "".join(self._printed).rstrip("\n") + rest

    async def end(self) -> None:
        """Stop the calls that have not returned: the sandbox does not stop those that the code did not await."""
        if left := [task for task in self._tasks if not task.done()]:
            names = shorten([self._tasks[task] for task in left])
            self.note = f"stopped, because the code ended without awaiting them: {names}"
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)

    def function(self, tool: Tool) -> Callable[..., Awaitable[Any]]:
        """Return the function for a tool in the code."""
        order = _order(tool.parameters)

        async def call(*args: Any, **kwargs: Any) -> Any:
            if len(args) > len(order):
                raise TypeError(f"{tool.name} takes at most {len(order)} arguments, got {len(args)}")
            if twice := [key for key in order[: len(args)] if key in kwargs]:
                raise TypeError(f"{tool.name} got two values for {shorten(twice)}")
            task = asyncio.ensure_future(self._call(tool, {**dict(zip(order, args, strict=False)), **kwargs}))
            self._tasks[task] = tool.name
            return await task

        return call

    async def _call(self, tool: Tool, arguments: dict[str, Any]) -> Any:
        """Call a tool, with the events and the place for questions of a call by the model; its errors are RuntimeError."""
        self._calls += 1
        if self._calls > MAX_CALLS:
            raise RuntimeError(f"the code called tools more than {MAX_CALLS:,} times")
        if self.fatal:
            raise RuntimeError("the run ends; no more calls")
        self._count(as_text(arguments))
        call_id, began, model = f"call_{new_id()}", time.perf_counter(), model_of_tool_call()
        with in_tool_call(""):  # a call is the same, also if other code makes it after a restart
            place = numbered(tool_call_of(tool.name, arguments))
        part = await part_of_work(lambda: place, _RETURNED)
        with part.told():
            emit(ToolCalled(call_id=call_id, tool=tool.name, arguments=arguments))
        failed, text, internal = True, "", ""
        try:
            if scope := current_scope():
                scope.run.check_budget()
            if part.value is None:
                with in_tool_call(place, model):
                    returned = [whole(plain(await tool.call(arguments), Blobs()))]
                await part.keep(returned)
            else:
                returned = part.value
            text = as_text(returned[0])
            self._count(text)
            failed = False
            return returned[0]
        except (Exception, SystemExit, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and is_cancelled():  # not an error of the tool
                text = "stopped before it returned"
                raise
            text = f"{type(error).__name__}: {describe(error)}" if isinstance(error, ToolError) else describe(error)
            internal = internal_text(error)
            if lacks_deps(error) or isinstance(error, BudgetError):
                self.fatal = self.fatal or cast("Exception", error)
            raise RuntimeError(text) from error
        finally:
            seconds = time.perf_counter() - began
            shown = cut(text, MAX_RESULT)
            with part.told():
                emit(
                    ToolReturned(
                        call_id=call_id, tool=tool.name, result=shown, failed=failed, seconds=seconds, internal=internal
                    )
                )

    def _count(self, text: str) -> None:
        self._passed += len(text)
        if self._passed > MAX_PASSED:
            raise RuntimeError(f"the code passes more than {MAX_PASSED:,} characters to and from tools; ask for less")


# Stubs


def stubs(tools: Sequence[Tool]) -> str:
    """Return the signatures of tools as Python stubs, with types from their JSON Schemas."""
    types = _Types()
    functions = ["\n".join(_stub(name, tool, types)) for name, tool in zip(_names(tools), tools, strict=True)]
    return "\n\n".join([*types.classes.values(), *functions])


def _stub(name: str, tool: Tool, types: _Types) -> Iterator[str]:
    properties: dict[str, Any] = tool.parameters.get("properties", {})
    definitions = tool.parameters.get("$defs", {})
    required = tool.parameters.get("required", [])
    parameters: list[str] = []
    docs = [tool.description.strip()[:_LONGEST_DOC]]
    named = _order(tool.parameters)
    for key in [*named, *(key for key in properties if key not in named)]:
        schema: Schema = properties[key] if isinstance(properties[key], dict) else {}
        kind = types.of(schema, definitions, f"{name}_{key}")
        doc = " ".join(str(schema.get("description") or "").split())[:_LONGEST_DOC]
        if key not in named:  # such as order-id
            docs.append(f"{key}: {kind}{', required' * (key in required)}, as **{{{key!r}: …}}. {doc}".rstrip())
            continue
        parameters.append(f"{key}: {kind}" if key in required else f"{key}: {kind} = {schema.get('default')!r}")
        if doc:
            docs.append(f"{key}: {doc}")
    returned = types.of(*_returned(tool), f"{name}_result")
    yield f"async def {name}({', '.join(parameters)}) -> {returned}:"
    doc = "\n\n".join(filter(None, [docs[0], "\n".join(docs[1:])])).replace("\\", "\\\\").replace('"""', "'''")
    yield "\n".join(f"    {line}".rstrip() for line in f'"""{doc}"""'.splitlines()) if doc else "    ..."


class _Types:
    """Annotations for JSON Schemas, and the classes that they name.

    Attributes:
        classes: Source of each class, by its name.
    """

    def __init__(self) -> None:
        self.classes: dict[str, str] = {}
        self._schemas: dict[str, Schema] = {}
        self._left = _MOST_TYPES

    def of(self, schema: Any, definitions: Mapping[str, Any], name: str, depth: int = 0) -> str:
        """Return the annotation for a schema; an object with known fields is a class with a name like `name`."""
        self._left -= 1
        if not isinstance(schema, dict) or depth > _DEEPEST or self._left < 0:
            return "Any"
        schema = cast("Schema", schema)
        if "$ref" in schema:
            key = str(schema["$ref"]).rpartition("/")[2]
            return self.of(definitions.get(key), definitions, key, depth + 1)
        if choices := schema.get("enum") or ([schema["const"]] if "const" in schema else None):
            plain = all(isinstance(each, str | int | None) for each in choices)
            return f"Literal[{', '.join(map(repr, choices))}]" if plain else "Any"
        if parts := schema.get("anyOf") or schema.get("oneOf"):
            return " | ".join(dict.fromkeys(self.of(each, definitions, name, depth + 1) for each in parts))
        kind = schema.get("type")
        if isinstance(kind, list):
            kinds = cast("list[Any]", kind)
            one_of = (self.of({**schema, "type": each}, definitions, name, depth + 1) for each in kinds)
            return " | ".join(dict.fromkeys(one_of))
        if kind == "array":
            return f"list[{self.of(schema.get('items'), definitions, name, depth + 1)}]"
        if kind == "object" and schema.get("properties"):
            return self._class(schema, definitions, name, depth)
        if kind == "object":
            return f"dict[str, {self.of(schema.get('additionalProperties'), definitions, name, depth + 1)}]"
        plain_types = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
        return plain_types.get(str(kind), "Any")

    def _class(self, schema: Schema, definitions: Mapping[str, Any], name: str, depth: int) -> str:
        called = _identifier("".join(part[:1].upper() + part[1:] for part in re.split(r"\W|_", name)))
        while called in self.classes and self._schemas[called] != schema:  # another tool has another class of that name
            called += "_"
        if called in self.classes:
            return called
        self.classes[called], self._schemas[called] = "", schema  # a class may refer to itself
        required = schema.get("required", [])
        fields: list[str] = []
        for key, part in schema["properties"].items():
            kind = self.of(part, definitions, f"{name}_{key}", depth + 1)
            fields.append(f"{json.dumps(key)}: {kind if key in required else f'NotRequired[{kind}]'}")
        self.classes[called] = f"{called} = TypedDict({called!r}, {{{', '.join(fields)}}})"
        return called


def _returned(tool: Tool) -> tuple[Any, Mapping[str, Any]]:
    """Return the JSON Schema of the values that the function of a tool returns, and its definitions; None if unknown."""
    try:
        function = inspect.unwrap(tool.function)
        annotation = typing.get_type_hints(function)["return"]
        schema = TypeAdapter[Any](annotation).json_schema(mode="serialization")
    except Exception:  # noqa: BLE001 - annotations of users' functions may be anything
        return None, {}
    return schema, schema.get("$defs", {})


def _order(parameters: Schema) -> list[str]:
    """Return the names of arguments that are identifiers, those that are required first."""
    required = parameters.get("required", [])
    names = [key for key in parameters.get("properties", {}) if _identifier(key) == key]
    return sorted(names, key=lambda key: key not in required)


def _names(tools: Sequence[Tool]) -> list[str]:
    """Return a different identifier for each tool, other than the names that code in the sandbox has anyway."""
    names: list[str] = []
    for tool in tools:
        name = _identifier(tool.name)
        while name in names or name in MODULES or hasattr(builtins, name):
            name += "_"
        names.append(name)
    return names


def _identifier(name: str) -> str:
    name = re.sub(r"\W", "_", name, flags=re.ASCII)
    return f"{name}_" if keyword.iskeyword(name) else f"_{name}" if not name or name[0].isdigit() else name
