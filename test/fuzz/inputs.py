"""Inputs: real files, and ways to break them: bytes flipped, cut and doubled; keys dropped, doubled and moved; types
swapped; nested deeply; huge numbers; YAML's aliases; archives with bombs, links and paths that lead out.
"""

from __future__ import annotations

import contextlib
import io
import json
import random
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

DATA = Path(__file__).resolve().parents[3] / "shared/data"
"""Real data that is not part of this repository; not on every machine."""

SEPARATOR = b"\0"
"""What parts an input of several texts."""

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

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


def anything(seeds: Sequence[bytes]) -> SearchStrategy[bytes]:
    """Inputs for hypothesis: real ones, broken; random JSON and YAML; any text, any bytes."""
    from hypothesis import strategies as st

    keys = st.sampled_from(
        sorted({word for each in seeds for word in re.findall(r"\w+", each.decode("utf-8", "replace"))})
    )
    leaves = st.sampled_from([each for each in ODD if each is None or isinstance(each, bool | int | float | str)])
    values = st.recursive(
        leaves | st.text(max_size=8),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    )
    numbers = st.integers(0, 2**32)
    return st.one_of(
        st.builds(lambda seed, number: broken(seed, random.Random(number)), st.sampled_from(list(seeds)), numbers),  # noqa: S311
        values.map(lambda value: json.dumps(value).encode()),
        values.map(lambda value: yaml.safe_dump(value).encode()),
        st.text().map(lambda text: text.encode("utf-8", "replace")),
        st.binary(),
    )


# Breaking files


def broken(content: bytes, chance: random.Random) -> bytes:
    """A file with something wrong in it; of several texts, one of them."""
    if content[:2] == b"PK" and chance.random() < 0.8:
        with contextlib.suppress(
            zlib.error,
            EOFError,
            struct.error,
            zipfile.BadZipFile,
            NotImplementedError,
            RuntimeError,
            ValueError,
            OSError,
            LookupError,
        ):
            return _archive(content, chance)
    parts = content.split(SEPARATOR, 2) if content[:2] != b"PK" and chance.random() < 0.9 else [content]
    at = chance.randrange(len(parts))
    ways: list[Callable[[bytes, random.Random], bytes]] = [_bytes, _values, _values, _values, _hostile]
    parts[at] = chance.choice(ways)(parts[at], chance)
    return SEPARATOR.join(parts)


def _bytes(content: bytes, chance: random.Random) -> bytes:
    data = bytearray(content)
    for _ in range(chance.randrange(1, 8)):
        at = chance.randrange(len(data) + 1)
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
        holder, key = chance.choice(list(islice(_places(value), 5_000)) or [([0], 0)])
        match chance.randrange(5):
            case 0 | 1:
                holder[key] = deepcopy(chance.choice(ODD))
            case 2:
                del holder[key]
            case 3:
                other, where = chance.choice(list(islice(_places(value), 5_000)) or [([0], 0)])
                with contextlib.suppress(LookupError, ValueError, RecursionError):
                    holder[key] = json.loads(json.dumps(other[where]))
            case _ if isinstance(holder, list):
                holder += [holder[key]] * chance.choice((1, 3, 50))
            case _:
                holder["odd.name"] = holder.pop(key)
    try:
        return before + write(value)
    except (ValueError, RecursionError, yaml.YAMLError, TypeError):
        return content[: len(content) // 2]


def _parsed(content: bytes) -> tuple[bytes, Any, Callable[[Any], bytes]]:
    before, tag, rest = content.rpartition(b"<workflow>")
    try:
        value = json.loads(rest.partition(b"</workflow>")[0])
        if isinstance(value, dict | list):
            return before + tag, value, lambda value: json.dumps(value).encode("utf-8")
    except (ValueError, RecursionError):
        pass
    try:
        is_small = len(content) < 20_000 and content.count(b"*") < 40  # what many aliases stand for may be endless
        value = yaml.load(content, _LOADER) if is_small else None  # noqa: S506 - a safe one
    except (ValueError, yaml.YAMLError, LookupError, AttributeError, TypeError, RecursionError, OverflowError):
        value = None
    return (
        b"",
        value if isinstance(value, dict | list) else None,
        lambda value: yaml.dump(value, Dumper=_DUMPER).encode("utf-8", "replace"),
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
            at = chance.randrange(len(content) + 1)
            return content[:at] + thing + content[at:]


def _archive(content: bytes, chance: random.Random) -> bytes:
    """An archive whose files are broken, too many, too large, or have names that lead out."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        files = [(info.filename, archive.read(info)) for info in archive.infolist()]
    at = chance.randrange(len(files))
    name, inner = files[at]
    kind = chance.choice((0, 0, 0, 0, 1, 1, 1, 2, 2, 3, 3, 3, 5, 6, 7)) if chance.random() < 0.98 else 4
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
