"""Texts for tests: of a format of JSON Schema, and of a regular expression."""

from __future__ import annotations

import string
from collections.abc import Callable, Iterator, Mapping
from itertools import islice, product

MAX_REPEATS = 1000
"""Maximum number of repetitions of a part of a regular expression."""

FORMATS: Mapping[str, Callable[[int], str]] = {
    "date-time": lambda n: f"2026-01-{n % 28 + 1:02}T12:00:00Z",
    "date": lambda n: f"2026-01-{n % 28 + 1:02}",
    "time": lambda n: f"12:{n % 60:02}:00Z",
    "duration": lambda n: f"P{n + 1}D",
    **dict.fromkeys(("email", "idn-email"), lambda n: f"name{n or ''}@example.com"),
    **dict.fromkeys(("hostname", "idn-hostname"), lambda n: f"host{n or ''}.example.com"),
    "ipv4": lambda n: f"192.0.2.{n % 254 + 1}",
    "ipv6": lambda n: f"2001:db8::{n + 1:x}",
    "ipv4network": lambda n: f"10.{n % 256}.0.0/16",
    "ipv4interface": lambda n: f"10.{n % 256}.0.1/16",
    "ipv6network": lambda n: f"2001:db8:{n:x}::/48",
    "ipv6interface": lambda n: f"2001:db8:{n:x}::1/48",
    "ipvanyaddress": lambda n: f"192.0.2.{n % 254 + 1}",
    "ipvanynetwork": lambda n: f"10.{n % 256}.0.0/16",
    "ipvanyinterface": lambda n: f"10.{n % 256}.0.1/16",
    **dict.fromkeys(("uri", "iri", "uri-reference", "iri-reference"), lambda n: f"https://example.com/{n or ''}"),
    "multi-host-uri": lambda n: f"postgresql://example.com/{n or 'a'}",
    "uri-template": lambda n: f"https://example.com/{{id{n or ''}}}",
    "uuid": lambda n: f"00000000-0000-4000-8000-{n + 1:012x}",
    "uuid1": lambda n: f"00000000-0000-1000-8000-{n + 1:012x}",
    "uuid3": lambda n: f"00000000-0000-3000-8000-{n + 1:012x}",
    "uuid4": lambda n: f"00000000-0000-4000-8000-{n + 1:012x}",
    "uuid5": lambda n: f"00000000-0000-5000-8000-{n + 1:012x}",
    "json-pointer": lambda n: f"/a{n or ''}",
    "relative-json-pointer": lambda n: str(n),
    "json-string": lambda n: str(n + 1),
    "regex": lambda n: f"a{n or ''}",
    **dict.fromkeys(("binary", "byte", "base64", "base64url"), lambda n: "dGV4dA==" * (n + 1) if not n else "dGV4" * n),
    "color": lambda n: f"#{n:06x}",
}
"""Example number `n` of each format, from 0."""

_WORD = string.ascii_lowercase + string.ascii_uppercase + string.digits + "_"
_ALL = "".join(dict.fromkeys(_WORD + " -.,:;/!?#%&*()[]{}<>=+@$'\"|~^`\\\t\n" + "éß中"))
_CLASSES: Mapping[str, str] = {
    "d": string.digits,
    "w": _WORD,
    "s": " \t\n",
    "D": "".join(char for char in _ALL if not char.isdigit()),
    "W": "".join(char for char in _ALL if char not in _WORD),
    "S": "".join(char for char in _ALL if not char.isspace()),
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "f": "\f",
    "v": "\v",
}
_POSIX = {"alpha": string.ascii_letters, "digit": string.digits, "alnum": string.ascii_letters + string.digits}


def texts_of_pattern(pattern: str, least: int) -> Iterator[str]:
    """Yield texts in which a regular expression is found, without look-around, back-references and Unicode classes.

    Args:
        pattern: The regular expression.
        least: Minimum length of the texts, which other parts than the pattern require.

    Raises:
        ValueError: The expression has a part that is not supported.
    """
    for repeats in dict.fromkeys((0, 1, 2, 3, *(least + more for more in (0, 1, -1, -2, -3)), 8, 16, 32)):
        if 0 <= repeats <= MAX_REPEATS:
            texts = list(islice(_Pattern(pattern, repeats).texts(), 20))
            yield from texts
            if not pattern.endswith("$"):
                yield from (text.ljust(least, "a") for text in texts if len(text) < least)


class _Pattern:
    """Reader of a regular expression that makes up texts, in which unlimited parts occur `repeats` times more."""

    def __init__(self, pattern: str, repeats: int) -> None:
        self._rest = pattern
        self._repeats = repeats

    def texts(self) -> Iterator[str]:
        """Yield the texts."""
        found = self._alternatives()
        if self._rest:
            raise ValueError(f"unexpected {self._rest[0]!r}")
        yield from found

    def _take(self, *beginnings: str) -> str:
        """Return which of some texts comes next, after taking it; empty if none does."""
        found = next((each for each in beginnings if self._rest.startswith(each)), "")
        self._rest = self._rest[len(found) :]
        return found

    def _next(self) -> str:
        if not self._rest:
            raise ValueError("it ends in the middle of a part")
        char, self._rest = self._rest[0], self._rest[1:]
        return char

    def _alternatives(self) -> list[str]:
        found = self._sequence()
        while self._take("|"):
            found += self._sequence()
        return found

    def _sequence(self) -> list[str]:
        found = [""]
        while self._rest and self._rest[0] not in "|)":
            part = self._repeated(self._part())
            found = [head + tail for tail, head in islice(product(part, found), 30)]
        return found

    def _part(self) -> list[str]:
        char = self._next()
        if char == "(":
            if self._take("?:"):
                pass
            elif self._take("?P<", "?<") and self._rest[:1] not in ("=", "!"):
                self._rest = self._rest.partition(">")[2]
            elif self._rest.startswith(("?", "=", "!")):
                raise ValueError("look-around or a flag")
            found = self._alternatives()
            if not self._take(")"):
                raise ValueError("a group is not closed")
            return found
        if char in "^$":
            return [""]
        if char == "[":
            return list(self._class())
        if char == ".":
            return list(_WORD)
        return list(self._escaped()) if char == "\\" else [char]

    def _escaped(self) -> str:
        char = self._next()
        if char in "bBAzZ":
            raise ValueError("a word boundary")
        if char in "xu":
            length = 2 if char == "x" else 4
            code, self._rest = self._rest[:length], self._rest[length:]
            return chr(int(code, 16))
        if char in _CLASSES:
            return _CLASSES[char]
        if char.isalnum():
            raise ValueError(rf"the escape \{char}")
        return char

    def _class(self) -> str:
        """Return the characters of a class, after its opening bracket."""
        is_negated = bool(self._take("^"))
        chars = self._next() if self._rest[:1] == "]" else ""
        while not self._take("]"):
            if self._take("[:"):
                name, _, self._rest = self._rest.partition(":]")
                chars += _POSIX.get(name, "")
                continue
            char = self._next()
            first = self._escaped() if char == "\\" else char
            if self._rest[:1] == "-" and self._rest[1:2] not in ("]", "") and len(first) == 1:
                self._next()
                char = self._next()
                last = self._escaped() if char == "\\" else char
                chars += "".join(map(chr, range(ord(first), min(ord(last[:1]), ord(first) + 200) + 1)))
            else:
                chars += first
        return "".join(char for char in _ALL if char not in chars) if is_negated else chars

    def _repeated(self, part: list[str]) -> list[str]:
        least, most = 1, 1
        if sign := self._take("*", "+", "?"):
            least, most = (1 if sign == "+" else 0), (1 if sign == "?" else MAX_REPEATS)
        elif self._rest[:1] == "{" and self._rest.partition("}")[0].strip("{, ").replace(",", "").isdigit():
            bounds, _, self._rest = self._rest[1:].partition("}")
            low, comma, high = bounds.partition(",")
            least = int(low or 0)
            most = int(high) if high.strip() else MAX_REPEATS if comma else least
        else:
            return part
        self._take("?", "+")
        if least > MAX_REPEATS:
            raise ValueError(f"a part is repeated {least:,} times")
        times = min(most, least + self._repeats)
        return [text * times for text in part] if times else [""]
