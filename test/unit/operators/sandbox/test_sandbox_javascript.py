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
    ("code", "said"),
    [
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
