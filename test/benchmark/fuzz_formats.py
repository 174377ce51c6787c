"""Broken and hostile files of every format: they are read or refused with issues, soon, and nothing is written.

    python test/benchmark/fuzz_formats.py [N] [--seed S]

Makes N (by default 10,000) files of real ones: bytes flipped, cut and doubled; keys dropped, doubled and moved; types
swapped; nested deeply; huge numbers; YAML's aliases; archives with bombs, links and paths that lead out. Each is read,
checked, written in every format and drawn. A failure is any error but `InvalidError` with issues that have a code and a
place, more than two seconds of a processor, or a file that is opened to be written. Prints a table; exit status 1 on any
failure, which is told with the number that makes its file again.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import signal
import sys
import traceback
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from time import process_time
from typing import Any

import yaml

from operad.operators.formats.comfyui import Definitions, formats, read_definitions
from operad.operators.formats.format import Format
from operad.operators.formats.table import FORMATS, read
from operad.operators.node_graph import Edge, NodeGraph, NodeSpec
from operad.runtime.errors import InvalidError

TOOK: list[float] = []
"""Seconds of computing of each reading, check and writing of the file at hand."""

DATA = Path(__file__).resolve().parents[3] / "shared/data"
LONGEST, HANGS = 2.0, 30
"""Seconds of a processor that each reading, check and writing may take, and seconds after which it is ended."""

ODD: Sequence[Any] = (
    *(
        None,
        True,
        0,
        -1,
        10**30,
        1.5,
        1e308,
        "",
        "7",
        "\ud800",
        "\x00",
        [],
        {},
        [[]],
        [1, 0],
        ["1", 0],
        {"a": 1},
        "1-1",
    ),
    *("{{#1.x#}}", "{{#", "workflow", "x" * 5000, [[[[[]]]]], {"id": "1"}, float("nan"), -(2**63)),
)
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGES = {
    "os.mkdir",
    "os.rename",
    "os.remove",
    "os.link",
    "os.symlink",
    "os.truncate",
    "os.chmod",
    "shutil.unpack_archive",
}


@dataclass
class Tally:
    """What came of the files of a format."""

    files: int = 0
    read: int = 0
    refused: int = 0
    slowest: float = 0.0
    failures: list[str] = field(default_factory=list)


class Writes:
    """The files that are opened to be written while it is `on`."""

    def __init__(self) -> None:
        self.on = False
        self.seen: list[str] = []
        sys.addaudithook(self._hear)

    def _hear(self, event: str, args: tuple[Any, ...]) -> None:
        if self.on and (event in CHANGES or (event == "open" and isinstance(args[2], int) and args[2] & WRITES)):
            self.seen.append(f"{event} {args[0]!r}")


def seeds() -> Mapping[str, list[bytes]]:
    """Real files by format."""
    kinds: list[tuple[str, Any, list[tuple[str, int]]]] = [
        ("start", {"variables": [["text", "string"], ["list", "array[string]"], ["n", "number"], ["f", "file"]]}, []),
        ("llm", {"system": "You are kind.", "user": "Say {{#1.text#}}"}, [("1", 0)]),
        ("if-else", {"cases": [[None, [[["n", "1"], ">", "2"]]], ["and", [[["text", "1"], "empty"]]]]}, [("2", 0)]),
        ("code", {"variables": [["a", ["n", "1"]]], "outputs": [["b", "number"]], "code": "def main(a):\n  return {'b': a}"}, [("3", 0)]),
        ("template-transform", {"variables": [["a", ["text", "2"]]], "template": "{% for x in a %}{{ x }}{% endfor %}"}, [("3", 1)]),
        ("question-classifier", {"query_variable_selector": ["text", "1"], "classes": ["a", "b"]}, [("3", 2)]),
        ("iteration", {"iterator_selector": ["list", "1"], "output_selector": ["text", "7-2"]}, [("6", 0), ("6", 1)]),
        ("end", {"outputs": [["said", ["output", "7"]]]}, [("7", 0), ("4", 0), ("5", 0)]),
    ]  # fmt: skip
    nodes = [NodeSpec(str(number), kind, params) for number, (kind, params, _) in enumerate(kinds, 1)]
    edges = [Edge(source, str(n), port) for n, (*_, after) in enumerate(kinds, 1) for source, port in after]
    nodes += [
        NodeSpec("7-1", "iteration-start", {}, "7"),
        NodeSpec("7-2", "llm", {"system": "", "user": "{{#7.item#}}"}, "7"),
    ]
    graph = NodeGraph(nodes, [*edges, Edge("7-1", "7-2")], "fuzz")
    found = {name: [FORMATS[name].dump(graph)] for name in ("chat2workflow", "dify", "coze", "operad", "worfbench")}
    response = b"<node_selection>Start, LLM</node_selection>\n<workflow>" + found["chat2workflow"][0] + b"</workflow>"
    found["chat2workflow"].append(response)
    page = _page()
    found["comfyui"] = [page]
    comfy = FORMATS["comfyui"].load(page, "fuzz")
    found["comfyui-api"] = [FORMATS["comfyui-api"].dump(comfy)]
    found["comfyui-code"] = [FORMATS["comfyui-code"].dump(FORMATS["comfyui-api"].load(found["comfyui-api"][0], "fuzz"))]
    if DATA.is_dir():
        definitions = read_definitions((DATA / "comfyui/object_info.json").read_text(encoding="utf-8"))
        files = [(DATA / f"comfyui/workflows/{name}.json").read_bytes() for name in ("default", "image_anima_preview")]
        found["comfyui"] += files
        known = formats(definitions)
        found["comfyui-code"] += [known[2].dump(known[0].load(files[0], "fuzz"))]
        found["comfyui-api"].append((DATA / "comfyui/api/flux_schnell.json").read_bytes())
        golds = json.loads((DATA / "worfbench/wikihow.json").read_text(encoding="utf-8"))
        found["worfbench"] += [item["conversations"][-1]["content"].encode() for item in golds[:5]]
        recorded = json.loads((DATA / "chat2workflow/may/glm_4d6.json").read_text(encoding="utf-8"))
        found["chat2workflow"] += [item["workflow"].encode() for item in recorded[:5] if item["valid"]]
    return found


def _page() -> bytes:
    nodes = [
        {
            "id": 1,
            "type": "Load",
            "outputs": [{"name": "IMAGE", "type": "IMAGE", "links": [1]}],
            "widgets_values": ["a"],
        },
        {
            "id": 2,
            "type": "sub",
            "inputs": [{"name": "in", "type": "IMAGE", "link": 1}],
            "outputs": [{"type": "IMAGE"}],
        },
        {"id": 3, "type": "Save", "inputs": [{"name": "images", "type": "IMAGE", "link": 2}], "mode": 4},
    ]
    inner = {"id": 5, "type": "Reroute", "inputs": [{"name": "", "type": "*"}], "outputs": [{"type": "*"}]}
    links = [
        {"id": 1, "origin_id": -10, "origin_slot": 0, "target_id": 5, "target_slot": 0, "type": "*"},
        {"id": 2, "origin_id": 5, "origin_slot": 0, "target_id": -20, "target_slot": 0, "type": "*"},
    ]
    ends = {"inputs": [{"name": "in"}], "outputs": [{"name": "out"}]}
    sub = {"id": "sub", "name": "Sub", "nodes": [inner], "links": links, **ends}
    outer = [[1, 1, 0, 2, 0, "IMAGE"], [2, 2, 0, 3, 0, "IMAGE"]]
    return json.dumps({"nodes": nodes, "links": outer, "definitions": {"subgraphs": [sub]}, "version": 0.4}).encode()


# Breaking files


def broken(content: bytes, chance: random.Random) -> bytes:
    """A file with something wrong in it."""
    if content[:2] == b"PK" and chance.random() < 0.8:
        return _archive(content, chance)
    ways: list[Callable[[bytes, random.Random], bytes]] = [_bytes, _values, _values, _values, _hostile]
    return chance.choice(ways)(content, chance)


def _bytes(content: bytes, chance: random.Random) -> bytes:
    data = bytearray(content)
    for _ in range(chance.randrange(1, 8)):
        at = chance.randrange(len(data) or 1)
        match chance.randrange(5):
            case 0:
                data[at : at + 1] = bytes([chance.randrange(256)])
            case 1:
                data[at : at + 1] = bytes([chance.choice(b"\"{}[],:-0123456789aeE#=()\\\n\t\x00\xff*&!<>|%'")])
            case 2:
                del data[at : at + chance.randrange(1, 60)]
            case 3:
                data[at:at] = data[at : at + chance.randrange(1, 60)]
            case _:
                del data[at:]
    return bytes(data)


def _values(content: bytes, chance: random.Random) -> bytes:
    """Keys dropped, doubled, moved; types swapped."""
    before, value, write = _parsed(content)
    if value is None:
        return _bytes(content, chance)
    for _ in range(chance.randrange(1, 6)):
        holder, key = chance.choice(list(_places(value)) or [([0], 0)])
        match chance.randrange(5):
            case 0 | 1:
                holder[key] = deepcopy(chance.choice(ODD))
            case 2:
                del holder[key]
            case 3:
                other, where = chance.choice(list(_places(value)) or [([0], 0)])
                with contextlib.suppress(LookupError, ValueError, RecursionError):
                    holder[key] = json.loads(json.dumps(other[where]))
            case _ if isinstance(holder, list):
                holder += [holder[key]] * chance.choice((1, 3, 50))
            case _:
                holder["odd.name"] = holder.pop(key)
    try:
        return before + write(value)
    except (ValueError, RecursionError, yaml.YAMLError):
        return content[: len(content) // 2]


def _parsed(content: bytes) -> tuple[bytes, Any, Callable[[Any], bytes]]:
    before, tag, rest = content.rpartition(b"<workflow>")
    try:
        value = json.loads(rest.partition(b"</workflow>")[0])
        return before + tag, value, lambda value: json.dumps(value).encode("utf-8")
    except ValueError:
        pass
    try:
        value = yaml.safe_load(content)
    except (ValueError, yaml.YAMLError):
        value = None
    return (
        b"",
        value if isinstance(value, dict) else None,
        lambda value: yaml.safe_dump(value).encode("utf-8", "replace"),
    )


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    open_ = [value]
    while open_:
        inner = open_.pop()
        keys: Any = list(inner) if isinstance(inner, dict) else range(len(inner))
        for key in keys:
            yield inner, key
            if isinstance(inner[key], dict | list):
                open_.append(inner[key])


def _hostile(content: bytes, chance: random.Random) -> bytes:
    """What is made to do harm, by itself or in the place of a value."""
    depth = chance.choice((50, 70, 1_000, 100_000))
    bomb = b"a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + b"".join(
        b"a%d: &a%d [%s]\n" % (n, n, b", ".join([b"*a%d" % (n - 1)] * 9)) for n in range(1, 12)
    )
    things = [
        b"[" * depth,
        b"[" * depth + b"]" * depth,
        b'{"a":' * depth + b"1" + b"}" * depth,
        b"(" * depth,
        b"- " * min(depth, 5_000),
        b"9" * chance.choice((20, 400, 5_000, 100_000)),
        b"1e" + b"9" * chance.choice((3, 400)),
        b"0x" + b"f" * 5_000,
        b"!!python/object/apply:os.system [touch /tmp/operad_was_here]",
        b"&a [*a]",
        b"{<<: *a0}",
        b'"\\ud800"',
        b"1900-02-31",
        b"1:2:3:" * 2_000,
        b"{{#" * 3_000,
        b"x" * 300_000,
        b"(1,2) " * 20_000,
        b"1: a\n" * 20_000,
    ]
    thing = chance.choice(things)
    match chance.randrange(4):
        case 0:
            return thing
        case 1:
            return bomb + content
        case 2:
            return content.replace(chance.choice((b'"1"', b"'1'", b"llm", b"null", b"1")), thing, 1)
        case _:
            at = chance.randrange(len(content))
            return content[:at] + thing + content[at:]


def _archive(content: bytes, chance: random.Random) -> bytes:
    """An archive whose files are broken, too many, too large, or have names that lead out."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        files = [(info.filename, archive.read(info)) for info in archive.infolist()]
    at = chance.randrange(len(files))
    name, inner = files[at]
    kind = chance.randrange(8)
    match kind:
        case 0 | 1 | 2:
            files[at] = (name, chance.choice((_bytes, _values, _hostile))(inner, chance))
        case 3:
            away = chance.choice(("../../evil", "/tmp/evil", "..\\..\\evil", "C:\\evil", "a/../../b", "\x00", "~/evil"))  # noqa: S108
            files.append((away, b"x")) if chance.random() < 0.5 else files.__setitem__(at, (away + "/" + name, inner))
        case 4:
            files.append(("Workflow/workflow/x-draft.yaml", b"\0" * 200_000_000))
        case 5:
            files += [(f"{number}", b"") for number in range(5_000)]
        case 6:
            files = [each for place, each in enumerate(files) if place != at] or files
        case _:
            files.append(files[at])
    out = io.BytesIO()
    with contextlib.suppress(UserWarning), zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for file, data in files:
            info = zipfile.ZipInfo(file.replace("\0", "") or "x")
            info.compress_type = zipfile.ZIP_DEFLATED
            if kind == 3 and chance.random() < 0.3:
                info.external_attr = 0o120777 << 16  # a link
            archive.writestr(info, data)
    made = out.getvalue()
    return _bytes(made, chance) if chance.random() < 0.2 else made


# Using them


def use(content: bytes, by: Format, definitions: Definitions) -> bool:
    """Do all that can be done with a file; whether it could be read."""
    known = {**FORMATS, **{each.name: each for each in formats(definitions)}}
    graphs: list[tuple[Format, NodeGraph]] = []
    for way in (lambda: read(content, "fuzz", known), lambda: (by, by.load(content, "fuzz"))):
        with refusing():
            graphs.append(way())
    for found, graph in graphs[:1]:
        with refusing():
            found.check(graph)
        with refusing():
            found.lines(content)
        for other in known.values():
            other.losses(graph)
            with refusing(places=False):
                other.dump(graph)
    return bool(graphs)


@contextlib.contextmanager
def refusing(*, places: bool = True) -> Iterator[None]:
    """Where a file may be refused: with issues that have a code and a place. How long it takes is noted."""
    began = process_time()
    try:
        yield
    except InvalidError as error:
        if not error.issues or not all(issue.code and issue.message for issue in error.issues):
            raise AssertionError(f"an issue without a code: {error}") from error
    finally:
        TOOK.append(process_time() - began)


def refused_well(content: bytes) -> None:
    """A refusal has a place in each issue."""
    try:
        read(content, "fuzz")
    except InvalidError as error:
        if not all(issue.where for issue in error.issues):
            raise AssertionError(f"an issue without a place: {error}") from error


def _too_long(number: int, frame: object) -> None:
    raise TimeoutError(f"takes more than {HANGS} seconds")


def main(arguments: Sequence[str]) -> int:
    """Print the table; 1 on any failure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("number", nargs="?", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0, help="the number of the first file")
    options = parser.parse_args(arguments)
    real, definitions = seeds(), Definitions()
    if DATA.is_dir():
        definitions = read_definitions((DATA / "comfyui/object_info.json").read_text(encoding="utf-8"))
    names = sorted(real)
    tallies = {name: Tally() for name in names}
    writes = Writes()
    signal.signal(signal.SIGALRM, _too_long)
    for number in range(options.seed, options.seed + options.number):
        chance = random.Random(number)  # noqa: S311
        name = names[number % len(names)]
        tally = tallies[name]
        content = broken(chance.choice(real[name]), chance)
        tally.files += 1
        writes.seen.clear()
        TOOK.clear()
        signal.alarm(HANGS)
        writes.on = True
        try:
            readable = use(content, FORMATS[name], definitions)
            refused_well(content)
            tally.read += readable
            tally.refused += not readable
        except Exception as error:  # noqa: BLE001 - that is what is looked for
            at = traceback.extract_tb(error.__traceback__)[-1]
            what = f"{type(error).__name__}: {str(error)[:200]} at {Path(at.filename).name}:{at.lineno}"
            tally.failures.append(f"{number}: {what}")
        finally:
            writes.on = False
            signal.alarm(0)
        seconds = max(TOOK, default=0.0)
        tally.slowest = max(tally.slowest, seconds)
        if seconds > LONGEST:
            tally.failures.append(f"{number}: took {seconds:.1f} s")
        tally.failures += (f"{number}: {each}" for each in writes.seen)
    print("| format | files | read | refused | slowest, s | failures |\n|---|---:|---:|---:|---:|---:|")
    for name, tally in tallies.items():
        print(
            f"| {name} | {tally.files} | {tally.read} | {tally.refused} | {tally.slowest:.2f} | {len(tally.failures)} |"
        )
    failures = [f"{name} {each}" for name, tally in tallies.items() for each in tally.failures]
    print(*failures[:100], sep="\n")
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
