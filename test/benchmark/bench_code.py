"""Measure the share of recorded code nodes that give the same result in the sandbox and in CPython.

    python test/benchmark/bench_code.py [RUN.json…] [--differences] [--pages]

Every distinct code node of the recorded Chat2Workflow responses (default: those of ../shared) is called with several
made-up sets of arguments, as a code node and by CPython in a limited process. Two results are the same if both calls
return equal dicts or fail with the same error; messages that CPython 3.14 reworded count as the same. Snippets that may
differ by time or chance run twice in CPython, and are left out if these two results differ. Snippets that import a
package run in a limited process, as if the user had allowed it, and are also counted separately. With `pyeryx` installed,
CPython in WebAssembly is measured, too. With --pages, the figures are written into the pages of docs. The exit status is
1 below 99%.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from page import write_figures

from operad.operators.sandbox.code import CodeError, CodeLimits, call_code
from operad.operators.sandbox.process import run_in_process, task_of
from operad.operators.sandbox.snippet import Snippet, read
from operad.runtime.values.errors import InputError

AIM = 0.99
DATA = Path(__file__).resolve().parents[3] / "shared/data/chat2workflow"
LIMITS = CodeLimits(seconds=5, packages=("numpy", "pandas", "requests", "urllib", "xml"))

ARTICLE = (
    "# Figs & dates\n\nDried figs keep for **two years**; dates, too: 1,250 g at 3.50 €.\n\n## Harvest\n- August 2024\n"
    "- September\n\n---\nImage: https://example.com/fig.png (see [a link](http://example.com/?q=1))\n# End"
)
RECORDS = [
    {"title": "Fig", "name": "fig", "score": 3.5, "content": "dried", "url": "https://example.com/1", "id": 1},
    {"title": "Date", "name": "date", "score": 4, "content": "fresh\nand sweet", "url": "https://example.com/2"},
]
FENCED = f"Here it is:\n```json\n{json.dumps({'items': RECORDS, 'count': 2, 'title': 'Fruit'})}\n```\nDone."
LINES = ["Outline: fig", "2. date — é😀", "", "score: 7/10", "A) yes"]

BY_KIND: Mapping[str, Sequence[Any]] = {
    "str": [ARTICLE, FENCED, json.dumps(RECORDS), "7.5"],
    "int": [3, 0, 12, -1],
    "float": [2.5, 0.0, 4.0, -1.25],
    "bool": [True, False, True, False],
    "list": [LINES, RECORDS, [FENCED, ARTICLE], []],
    "dict": [RECORDS[0], {"items": RECORDS, "data": LINES}, {"body": ARTICLE, "text": FENCED}, {}],
    "any": [ARTICLE, FENCED, LINES, RECORDS],
}
"""Values by the annotation of a parameter; one of each set."""


def snippets(paths: Sequence[Path]) -> list[str]:
    """Return the distinct, readable snippets of the recorded code nodes with a `main`."""
    found: dict[str, None] = {}
    for path in paths:
        for record in json.loads(path.read_text(encoding="utf-8")):
            workflow = record["workflow"]
            try:
                graph = json.loads(workflow) if isinstance(workflow, str) else workflow
            except ValueError:
                continue
            nodes = graph.get("nodes_info") if isinstance(graph, dict) else None
            for node in nodes if isinstance(nodes, list) else []:
                param = node.get("param") if isinstance(node, dict) and node.get("type") == "code" else None
                code = param.get("code") if isinstance(param, dict) else None
                if isinstance(code, str):
                    found[code] = None
    return list(found)


def calls(code: str) -> Iterator[tuple[Snippet, dict[str, Any]]]:
    """Return the snippet with each set of arguments, or an empty list if it is not valid Python or has no `main`."""
    try:
        snippet = read(code)
    except CodeError:
        return
    hints = _annotations(snippet.source)
    for number in range(len(BY_KIND["any"])):
        kinds = [BY_KIND[hints.get(name, "any")] for name in snippet.parameters.names]
        values = [
            kind[(number + place) % len(kind)] if kind is BY_KIND["any"] else kind[number]
            for place, kind in enumerate(kinds)
        ]
        if number and snippet.of_packages(LIMITS.packages):
            return  # loading pandas takes a second
        yield snippet, dict(zip(snippet.parameters.names, values, strict=True))


def _annotations(code: str) -> dict[str, str]:
    import ast

    mains = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.FunctionDef) and node.name == "main"]
    hints: dict[str, str] = {}
    for argument in (*mains[-1].args.args, *mains[-1].args.kwonlyargs) if mains else ():
        said = (
            ast.unparse(argument.annotation).partition("[")[0].rpartition(".")[2].lower() if argument.annotation else ""
        )
        hints[argument.arg] = said if said in BY_KIND else "any"
    return hints


async def here(code: str, arguments: Mapping[str, Any]) -> str:
    """Return the result of the call in a code node."""
    try:
        return json.dumps(await call_code(code, arguments, LIMITS))
    except (CodeError, InputError) as error:
        return ending(str(error))


def ending(error: str) -> str:
    """Return the error without the text around it."""
    if "returned a value that JSON cannot represent" in error:
        return "not JSON"
    return "error: " + error.partition("`: ")[2] if "`: " in error else f"error: {error}"


def told(said: Mapping[str, Any]) -> str:
    """Return the result that CPython's driver printed."""
    if "error" in said:
        return "not JSON" if said.get("returned") else f"error: {said['error']}"
    kind = said["kind"]
    if said["text"] is None:
        a = "None" if kind == "NoneType" else f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"
        return f'error: main returned {a}, not a dict; return one, such as {{"result": …}}'
    return cast("str", said["text"])


async def by_cpython(snippet: Snippet, arguments: Mapping[str, Any]) -> str:
    """Return the result of the call in CPython."""
    try:
        packages = snippet.of_packages(LIMITS.packages)
        return told(await run_in_process(task_of(snippet, json.dumps(arguments), packages), LIMITS))
    except CodeError as error:
        return ending(str(error))


class Wasm:
    """CPython in WebAssembly; `pyeryx` has no wheels before Python 3.12."""

    def __init__(self) -> None:
        import eryx  # pyright: ignore[reportMissingImports]

        begun = time.perf_counter()
        self._eryx: Any = eryx
        self._limits = eryx.ResourceLimits(
            execution_timeout_ms=int(LIMITS.seconds * 1000), max_memory_bytes=LIMITS.memory_bytes
        )
        self._driver = Path(sys.modules[Snippet.__module__].__file__ or "").with_name("driver.py").read_text("utf-8")
        self.sandbox().execute("pass")
        self.start = time.perf_counter() - begun

    def sandbox(self) -> Any:
        """Start a new sandbox."""
        return self._eryx.Sandbox(resource_limits=self._limits)

    def __call__(self, snippet: Snippet, arguments: Mapping[str, Any]) -> str:
        """Return the result of the call."""
        given = (snippet.source, json.dumps(arguments), list(snippet.by_position), snippet.awaited)
        code = (
            f"{self._driver}\nimport io, sys\n_out, sys.stdout = sys.stdout, io.StringIO()\n"
            f"_code, _text, _placed, _awaited = {given!r}\n"
            "_said = call_main(_code, json.loads(_text), _placed, awaited=_awaited)\n"
            "sys.stdout = _out\nprint(json.dumps(_said))\n"
        )
        try:
            return told(json.loads(self.sandbox().execute(code).stdout))
        except self._eryx.EryxError as error:
            return f"error: {error}"


CHANGES = re.compile(r"random|time|uuid|\bset\b|\bid\(|hash\(")
"""Names in snippets whose result may differ between calls."""

REWORDED = (
    (r"too many values to unpack \(expected (\d+), got \d+\)", r"too many values to unpack (expected \1)"),
    (r"cannot use '\w+' as a (?:dict key|set element) \((unhashable type: '\w+')\)", r"\1"),
    (r"(argument of type '\w+' is not) a container or iterable", r"\1 iterable"),
)
"""Messages that CPython 3.14 changed, with their earlier forms."""


def same(one: str, other: str) -> bool:
    """Return whether two results are the same."""
    for new, old in REWORDED:
        one, other = re.sub(new, old, one), re.sub(new, old, other)
    if one.startswith("{") and other.startswith("{"):
        return json.loads(one) == json.loads(other)
    return one == other


@dataclass
class Tally:
    """Counts of the calls."""

    calls: int = 0
    packages: int = 0
    equal: Counter[str] = field(default_factory=Counter[str])
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict[str, float](float))
    differ: list[tuple[str, Mapping[str, Any], str, str]] = field(default_factory=list)


async def compare(paths: Sequence[Path], wasm: Wasm | None) -> Tally:
    """Run all calls."""
    tally = Tally()
    for snippet, arguments in [call for code in snippets(paths) for call in calls(code)]:
        times = 2 if CHANGES.search(snippet.source) else 1
        ends = await asyncio.gather(*(by_cpython(snippet, arguments) for _ in range(times)))
        expected = ends[0]
        if not same(expected, ends[-1]):
            continue
        tally.calls += 1
        engine = "limited process" if snippet.of_packages(LIMITS.packages) else "sandbox"
        tally.packages += engine == "limited process"
        begun = time.perf_counter()
        said = await here(snippet.source, arguments)
        tally.seconds[engine] += time.perf_counter() - begun
        tally.equal[engine] += same(said, expected)
        if not same(said, expected):
            tally.differ.append((snippet.source, arguments, expected, said))
        if wasm is not None:
            begun = time.perf_counter()
            tally.equal["wasm"] += same(wasm(snippet, arguments), expected)
            tally.seconds["wasm"] += time.perf_counter() - begun
    return tally


def figures_of(tally: Tally) -> dict[str, str]:
    """Return the figures of the pages."""
    equal, calls_ = tally.equal["sandbox"] + tally.equal["limited process"], tally.calls
    return {
        "code.equal": f"{equal} of {calls_} calls ({equal / calls_:.1%})",
        "code.sandbox": f"{tally.equal['sandbox']} of {calls_ - tally.packages}",
        "code.packages": f"{tally.equal['limited process']} of {tally.packages}",
    }


def main() -> int:
    """Print the share, and with --differences each call that differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", type=Path)
    parser.add_argument("--differences", action="store_true")
    parser.add_argument("--pages", action="store_true", help="write the figures into the pages of docs")
    options = parser.parse_args()
    runs = options.runs or sorted([*DATA.glob("may/*.json"), *DATA.glob("apr/*.json")])
    if not runs:
        print(f"no recorded runs: none is named, and none is at {DATA}", file=sys.stderr)
        return 0
    try:
        wasm = Wasm()
        print(f"wasm: {1000 * wasm.start:.0f} ms to start")
    except ImportError:
        wasm = None
    tally = asyncio.run(compare(runs, wasm))
    in_sandbox, equal = tally.calls - tally.packages, tally.equal["sandbox"] + tally.equal["limited process"]
    for engine, calls_, count in (
        ("all", tally.calls, equal),
        ("sandbox", in_sandbox, tally.equal["sandbox"]),
        ("limited process", tally.packages, tally.equal["limited process"]),
        *([("wasm", tally.calls, tally.equal["wasm"])] if wasm else []),
    ):
        spent = 1000 * tally.seconds[engine] / max(calls_, 1)
        print(
            f"{engine}: {count} of {calls_} calls end as with CPython ({count / max(calls_, 1):.1%})"
            + (f", {spent:.1f} ms per call" if spent else "")
        )
    if options.pages:
        write_figures(figures_of(tally))
    if options.differences:
        for code, arguments, expected, said in tally.differ:
            shown = json.dumps(arguments, ensure_ascii=False)[:200]
            print(f"{'=' * 80}\n{code}\n-- {shown}\n-- CPython: {expected[:300]}\n-- here: {said[:300]}")
    return 0 if equal >= AIM * tally.calls else 1


if __name__ == "__main__":
    sys.exit(main())
