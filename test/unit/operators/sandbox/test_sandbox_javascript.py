"""Code nodes in JavaScript, on QuickJS in a limited process."""

import asyncio
import sys

import pytest

from operad.flows.assemble import assemble
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.operators.nodes import NODE_TYPES
from operad.operators.sandbox.code import CodeError, CodeLimits
from operad.operators.sandbox.javascript import call_javascript, check_javascript
from operad.runtime import Job, OperadError
from operad.runtime.values.errors import InputError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows cannot limit a process this way")

LIMITS = CodeLimits(seconds=30, memory_bytes=32_000_000, output_chars=1_000)


async def failure(code, limits=LIMITS):
    with pytest.raises(CodeError) as caught:
        await call_javascript(code, {}, limits)
    return str(caught.value)


async def test_main_gets_an_object_and_returns_one():
    code = (
        "function main({ text, list }) {\n  console.log(text);\n  return { up: text.toUpperCase(), n: list.length };\n}"
    )
    assert await call_javascript(code, {"text": "é😀", "list": [1, {}]}) == {"up": "É😀", "n": 2}


async def test_an_async_main_is_awaited():
    code = "const main = async ({ a }) => { await null; return { r: a + 1 }; }"
    assert await call_javascript(code, {"a": 1}) == {"r": 2}


async def test_an_error_says_its_line():
    assert await failure("function main() {\n  throw new RangeError('no');\n}") == (
        "the snippet failed at line 2, `throw new RangeError('no');`: RangeError: no"
    )
    assert "SyntaxError" in await failure("function main( {")
    assert "code nodes have no modules" in await failure("function main() {\n  require('fs');\n}")
    assert "main returned an array, not a dict" in await failure("function main() { return [] }")
    assert "a promise that nothing settles" in await failure("function main() { return new Promise(() => {}) }")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("return { toJSON() { return 1 } }", "main returned a number, not a dict"),
        ("return { toJSON() { return [1] } }", "main returned an array, not a dict"),
        ("return { toJSON() { } }", "main returned undefined, not a dict"),
        ("return { toJSON() { return null } }", "main returned null, not a dict"),
        ("return { toJSON() { throw new Error('no') } }", "Error: no"),
        ("return { get a() { throw new Error('no') } }", "Error: no"),
        ("Object.prototype.toJSON = () => 1; return { a: 1 }", "main returned a number, not a dict"),
        ("Object.prototype.toJSON = () => 1; throw new RangeError('no')", "RangeError: no"),
        ("return new Proxy({}, { ownKeys() { throw new Error('no') } })", "Error: no"),
        ("const a = {}; a.a = a; return a", "TypeError: circular reference"),
        ("return { a: 10n }", "TypeError: BigInt"),
        ("return 10n", "main returned a bigint, not a dict"),
        ("return Symbol('a')", "main returned a symbol, not a dict"),
        ("return null", "main returned null, not a dict"),
        ("return { then() { } }", "a promise that nothing settles"),
        ("return Promise.reject()", "the snippet failed: undefined"),
    ],
)
async def test_a_value_that_is_no_object_of_json_is_an_error_that_says_why(body, said):
    assert said in await failure(f"function main() {{ {body} }}")


@pytest.mark.parametrize("thrower", ["function main() { throw %s }", "throw %s; function main() { }"])
@pytest.mark.parametrize(
    ("thrown", "said"),
    [
        ("null", "null was thrown: by the snippet, or by the engine because it wanted more than"),
        ("undefined", "the snippet failed: undefined"),
        ("5n", "the snippet failed: 5"),
        ("Symbol('s')", "the snippet failed: Symbol(s)"),
        ("'\\ud800'", "the snippet failed: \ufffd"),
        ("{ toString() { throw 1 } }", "an exception that has no text"),
        ("Object.create(null)", "an exception that has no text"),
        ("new Proxy({}, { getPrototypeOf() { throw 1 } })", "an exception that has no text"),
        ("new Error('InternalError: out of memory')", ": Error: InternalError: out of memory"),
    ],
)
async def test_whatever_is_thrown_is_said(thrower, thrown, said):
    assert said in await failure(thrower % thrown)


async def test_a_snippet_that_changes_the_builtins_still_returns_its_value():
    changes = "JSON.stringify = () => 'x'; Promise.prototype.then = null; globalThis.Promise = globalThis.JSON = null"
    assert await call_javascript(f"{changes}; const main = () => ({{ r: 1 }})", {}) == {"r": 1}


async def test_half_a_character_is_replaced_in_a_value_and_refused_in_code():
    assert await call_javascript("function main() { return { '\\ud800': '\\udc00!' } }", {}) == {"\ufffd": "\ufffd!"}
    assert "half of a surrogate pair" in await failure("function main() { return { r: '\ud800' } }")


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("function main() { let a = []; while (true) a.push({}) }", "the limit memory_bytes"),
        ("function main() { let a = []; while (true) a.push('x'.repeat(99999)) }", "the limit memory_bytes"),
        ("function main() { return { r: 'x'.repeat(2000) } }", "output_chars"),
        ("function main() { return main() + 1 }", "Maximum call stack"),
    ],
)
async def test_a_limit_ends_it_and_is_named(code, said):
    assert said in await failure(code)


async def test_a_snippet_that_never_ends_is_stopped():
    limits = CodeLimits(seconds=0.5)
    assert "0.5 s, the limit seconds" in await failure("function main() { while (true) {} }", limits)


async def test_nothing_outside_is_there():
    names = ["process", "fetch", "XMLHttpRequest", "Deno", "std", "os", "WebSocket", "importScripts", "setTimeout"]
    code = f"function main() {{ return {{ r: {names}.filter((name) => name in globalThis) }} }}"
    assert await call_javascript(code, {}) == {"r": []}


async def test_what_cannot_run_is_refused_beforehand():
    assert "has no main" in check_javascript("function other() {}")[0].message
    assert check_javascript("x" * 200_000)[0].code == "code"
    with pytest.raises(InputError, match="have to be JSON"):
        await call_javascript("function main() {}", {"a": object()})


def run_node(code, output="number"):
    node = {"variables": [["n", ["n", "1"]]], "outputs": [["r", output]], "code": code, "language": "javascript"}
    nodes = [
        NodeSpec("1", "start", {"variables": [["n", "number"]]}),
        NodeSpec("2", "code", node),
        NodeSpec("3", "end", {"outputs": [["r", ["r", "2"]]]}),
    ]
    workflow = assemble(NodeGraph(nodes, [Edge("1", "2"), Edge("2", "3")]), NODE_TYPES)
    return asyncio.run(workflow.aexecute(Job(goal="", inputs={"n": 2}), reasoner=None)).outputs


def test_a_code_node_runs_it_and_checks_its_types():
    assert run_node("function main({n}) { return {r: n * 21} }") == {"r": 42}
    with pytest.raises(OperadError, match="'r' is declared as number, and is string"):
        run_node("function main({n}) { return {r: String(n)} }")
    with pytest.raises(OperadError, match="has no main"):
        run_node("return 1")
