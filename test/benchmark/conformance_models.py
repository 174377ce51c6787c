"""Compare what Operad, pydantic-ai and the OpenAI Agents SDK do at endpoints that enforce the rules of vendors.

    python test/benchmark/conformance_models.py --peers .venv-models/bin/python [--page docs/model_conformance.md] [FEATURE …]

Each feature (`models_features.py`) is one question with its tools, type and settings, which each library asks through its
agent, with the class that it has for the vendor (`models_peers.py`, `ask_operad`). The endpoints are in this process
(`models_endpoints.py`). The exit status is 1 if Operad is worse than a peer in a cell. A peer that is not installed is left
out.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import IntEnum
from functools import partial
from pathlib import Path
from typing import Any

from models_asked import PNG, TYPES, WAIT, Ask, Outcome, outcome, total, weather
from models_endpoints import ENDPOINTS, KEY, PLAIN, Endpoint
from models_features import DIALECT_FEATURES, FEATURES, Feature
from page import markdown, write_into
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from operad import FileDescriptor, Job, Model, Operator, Workflow
from operad.runtime.events import ModelAnswered, SettingsDropped, TokenStreamed
from operad.runtime.models.addresses import one_line
from operad.runtime.values.blob import Blob


class Level(IntEnum):
    """Quality of an outcome: something else without a word, a request that breaks a rule, an error or a warning, right."""

    SILENT, REFUSED, SAYS, RIGHT = range(4)


@dataclass(frozen=True)
class Cell:
    """Result of a library with a feature at an endpoint.

    Attributes:
        level: Its quality.
        fault: What is wrong; empty if it is right.
    """

    level: Level
    fault: str = ""

    @property
    def shown(self) -> str:
        """The fault in few words, without what differs from run to run."""
        fault = re.sub(r"127\.0\.0\.1:\d+|(?<=position )\d+", "…", one_line(self.fault))
        return fault if len(fault) <= 100 else f"{fault[:100]}…"

    def __str__(self) -> str:
        return "✓" if self.level is Level.RIGHT else self.level.name.lower()


def photo() -> Blob:
    """A photo of the sky."""
    return Blob(data=PNG, media_type="image/png")


async def ask_operad(model: str, ask: Ask, found: Outcome, piece: Callable[[], None]) -> Outcome:
    """Ask with Operad."""

    def hear(event: Any) -> None:
        if isinstance(event, TokenStreamed):
            piece()
        elif isinstance(event, SettingsDropped):
            found.said = "; ".join(filter(None, [found.said, *event.settings]))
        elif isinstance(event, ModelAnswered):
            found.finish = event.finish_reason

    settings = {**ask.settings, **({"thinking": ask.thinking} if ask.thinking else {})}
    client = Model(
        model, base_url=ask.url, api_key=ask.key, api="responses" if ask.api == "responses" else None, **settings
    )
    tools = {"weather": weather, "total": total, "photo": photo}
    operator = Operator("Be brief.", tools=[tools[name] for name in ask.tools], output=TYPES.get(ask.output))
    with tempfile.TemporaryDirectory() as folder:
        (path := Path(folder) / "a.png").write_bytes(PNG)
        job = Job(ask.prompt, files=[FileDescriptor.of(path)] if ask.image else [])
        chat = Workflow(operator, model=client, listeners=[hear]).chat()
        result = await chat.asend(job)
        if ask.then:
            result = await chat.asend(ask.then)
    usage = result.usage
    found.usage = {"prompt": usage.prompt_tokens, "cached": usage.cached_tokens, "reasoning": usage.reasoning_tokens}
    return found.answer(result.output if ask.output else result.text, ask)


class Peers:
    """The process that asks with the other libraries.

    Attributes:
        versions: Versions of those that are installed.
    """

    def __init__(self, python: str) -> None:
        self._python = python
        self.versions = self._start()

    def _start(self) -> Mapping[str, str]:
        program = Path(__file__).with_name("models_peers.py")
        try:
            self._process = subprocess.Popen(
                [self._python, program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        except OSError:
            return {}
        line = self._process.stdout.readline() if self._process.stdout else ""
        return json.loads(line or "{}")

    def ask(self, name: str, ask: Ask) -> Outcome:
        """Return the outcome of a question."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps([name, asdict(ask)]) + "\n")
        self._process.stdin.flush()
        if line := self._process.stdout.readline():
            return Outcome(**json.loads(line))
        self._start()
        return Outcome(error="the process ended: the library blocked it, or crashed")


Library = Callable[[Endpoint, Ask], Outcome]


def cell(feature: Feature, endpoint: Endpoint, library: Library) -> Cell:
    """Return what a library does with a feature at an endpoint."""
    ask = Ask(endpoint.kind, endpoint.api, endpoint.model, "", KEY, **feature.asks)
    if ask.cancel:
        with endpoint.leave() as (url, left):
            found = library(endpoint, replace(ask, url=url))
            if not found.cancelled_at:
                return Cell(Level.SAYS, f"no piece of the answer arrives: {found.error}")
            is_right = left and left[0] - found.cancelled_at < WAIT
            return Cell(Level.RIGHT) if is_right else Cell(Level.SILENT, "the request goes on after its cancellation")
    with endpoint.serve(feature.script(endpoint)) as served:
        url = served.url.removesuffix("/v1") if endpoint.api in PLAIN else served.url
        found = library(endpoint, replace(ask, url=url))
    if served.refused:
        return Cell(Level.REFUSED, served.refused[0])
    fault = feature.wrong(found, served, endpoint)
    if found.error and not (feature.fails and not fault):
        return Cell(Level.SAYS, found.error)
    if fault and found.said and not feature.asks.get("settings"):  # of settings, each must be told by its name
        return Cell(Level.SAYS, f"{fault}: {found.said}")
    return Cell(Level.SILENT, fault) if fault else Cell(Level.RIGHT)


@dataclass
class Comparison:
    """Results of libraries.

    Attributes:
        libraries: The libraries, by their names.
        faults: Places of each fault, by feature, library and fault.
        worse: Cells in which Operad is worse than a peer.
    """

    libraries: Mapping[str, Library]
    faults: dict[tuple[str, str, str], list[str]] = field(default_factory=dict)
    worse: list[str] = field(default_factory=list)

    def cells(self, feature: Feature, endpoint: Endpoint, place: str) -> list[Cell | None]:
        """Return what each library does with a feature; None for one that has no client for the endpoint."""
        found: dict[str, Cell] = {}
        for name, library in self.libraries.items():
            if name != "OpenAI Agents" or endpoint.api not in ("anthropic", "google"):
                found[name] = cell(feature, endpoint, library)
                if found[name].fault:
                    self.faults.setdefault((feature.name, name, found[name].shown), []).append(place)
        if found["Operad"].level < max(each.level for each in found.values()):
            self.worse.append(f"{feature.name}, {place}: {found['Operad'].shown}")
        return [found.get(name) for name in self.libraries]

    def by_endpoint(self, features: Sequence[Feature]) -> Table:
        table = Table("feature", *(each.name for each in ENDPOINTS), title=" / ".join(self.libraries))
        for feature in features:
            rows = [None if feature.name in each.lacks else self.cells(feature, each, each.name) for each in ENDPOINTS]
            table.add_row(feature.name, *map(marks, rows))
        return table

    def by_dialect(self, features: Sequence[Feature]) -> Table:
        table = Table("dialect", *self.libraries, title="Dialects of chat completions")
        for feature in features:
            table.add_row(feature.name, *map(str, self.cells(feature, ENDPOINTS[-1], "dialect")))
        return table

    def listed(self) -> Table:
        table = Table("feature or dialect", "library", "endpoints", "fault", title="Faults")
        for (feature, name, fault), places in self.faults.items():
            table.add_row(feature, name, ", ".join(places), escape(fault))
        return table


def marks(cells: Sequence[Cell | None] | None) -> str:
    """One mark if all libraries are right; else one for each."""
    if cells is None:
        return "–"
    if all(each is None or each.level is Level.RIGHT for each in cells):
        return "✓"
    return " / ".join("–" if each is None else str(each) for each in cells)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("features", nargs="*", metavar="FEATURE", help="the beginnings of names; default: all")
    parser.add_argument("--peers", default=".venv-models/bin/python", help="a Python with the other libraries")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the tables between the marks of this file")
    args = parser.parse_args()
    peers = Peers(args.peers)
    libraries: dict[str, Library] = {
        "Operad": lambda endpoint, ask: asyncio.run(outcome(partial(ask_operad, endpoint.operad), ask))
    }
    for name in ("pydantic-ai", "OpenAI Agents"):
        if name in peers.versions:
            libraries[name] = partial(lambda name, _, ask: peers.ask(name, ask), name)
        else:
            print(f"{name} is not installed in {args.peers}, and left out", file=sys.stderr)
    compared = Comparison(libraries)
    chosen, dialects = (
        [each for each in group if each.name.startswith(tuple(args.features or [""]))]
        for group in (FEATURES, DIALECT_FEATURES)
    )
    found = [compared.by_endpoint(chosen), compared.by_dialect(dialects), compared.listed()]
    for table in found:
        Console().print(table)
    versions = ", ".join(f"{name} {version}" for name, version in peers.versions.items())
    print(versions)
    if args.page:
        text = markdown(found, "make conformance").rstrip("\n")
        write_into(args.page, f"{text} {versions}.\n", "conformance")
    print(f"Operad is worse than a peer in {len(compared.worse)} cells", *compared.worse, sep="\n  ")
    return 1 if compared.worse else 0


if __name__ == "__main__":
    sys.exit(main())
