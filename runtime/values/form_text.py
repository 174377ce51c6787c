"""Syntax of answer forms: matching brackets, keys with values, type words; each fault with its place.

The grammar, as JSON or as YAML: a form is a mapping of keys to values, a list of values, or a JSON Schema; a value is a
type (`string`, `number`, `integer`, `boolean`, `any`), a choice (``a | b`` or ``{enum: [a, b]}``), a number, true,
false, null, a text that describes a string, or a form. A key that ends with ``?`` may be missing from the answer.
A single word that stands alone is a type or refused; several words that stand alone are a description.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, cast

PathInForm = Sequence[int | str]
"""Path to a value of a form: keys and indices."""

AND_SO_ON = "..."
"""Marker in a form for further items of the same form."""

OPTIONAL = "?"
"""Suffix of a key that may be missing."""

_PAIRS = {"{": "}", "[": "]"}
_BEFORE_QUOTE = frozenset("{[,:")
_EXCERPT = 40

_WRITTEN: Mapping[str, str] = {
    **dict.fromkeys(("list", "array", "tuple"), "[string]"),
    **dict.fromkeys(("object", "dict", "map", "mapping"), "{key: string}"),
    **dict.fromkeys(("double", "decimal", "real"), "number"),
    **dict.fromkeys(("long", "whole"), "integer"),
    **dict.fromkeys(("null", "none", "unknown", "json"), "any"),
    "enum": "{enum: [a, b]}",
}
"""Type words of other languages, with their equivalents here."""

_OF_OTHERS = re.compile(
    r"(list|array|tuple|set|dict|map|optional|union|literal|enum)\s*[\[(<].*", re.IGNORECASE | re.DOTALL
)
_PART = r"""(?:[\w.+-]+|'[^'|]*'|"[^"|]*")"""
_ALTERNATIVES = re.compile(rf"{_PART}(?:\s*\|\s*{_PART})+")
_LONE = re.compile(r"[!-~]+")  # ASCII: Chinese prose has no spaces
_BRACKETS = frozenset("{[")


class Slip(NamedTuple):
    """Fault in a form's text.

    Attributes:
        what: Description of the fault and its remedy.
        at: Place, in characters.
        code: Kind of fault.
    """

    what: str
    at: int | None = None
    code: str = "unreadable"


def said_of(slip: Slip, text: str, before: int = 0) -> str:
    """Return a fault with its line, its column and a ``^`` before its place.

    Args:
        slip: The fault.
        text: The text.
        before: Offset of the form in the text; places are counted from there.

    Example:
        >>> said_of(Slip("'strng' is not a type", 6), "{why: strng}")
        "line 1, column 7, at the ^ of {why: ^strng}: 'strng' is not a type"
    """
    if slip.at is None:
        return slip.what
    at = min(before + slip.at, len(text))
    line, start = text.count("\n", 0, at) + 1, text.rfind("\n", 0, at) + 1
    end = text.find("\n", at)
    here = text[max(start, at - _EXCERPT) : at] + "^" + text[at : len(text) if end < 0 else end][:_EXCERPT]
    return f"line {line}, column {at - start + 1}, at the ^ of {here}: {slip.what}"


def bracket_slip(text: str) -> Slip | None:
    """Return the first bracket or quote that is unclosed or unexpected, or the first text after the form."""
    open_: list[int] = []
    at, last = 0, ""
    while at < len(text):
        char = text[at]
        if char in "\"'" and open_ and last in _BEFORE_QUOTE:
            end = _end_of_quote(text, at)
            if end < 0:
                return Slip(f"this {char} is not closed", at)
            at = end
        elif char == "#" and open_ and text[at - 1].isspace():
            at = text.find("\n", at) if "\n" in text[at:] else len(text)
        elif char in _PAIRS:
            open_.append(at)
        elif char in "}]":
            if not open_:
                return Slip(f"{char} without an opening bracket", at)
            begun = text[open_.pop()]
            if _PAIRS[begun] != char:
                return Slip(f"{char} where {_PAIRS[begun]} must close {begun}", at)
            if not open_ and (rest := text[at + 1 :].strip()):
                return Slip("the form ends before this; begin with words, if words are meant", text.index(rest, at + 1))
        last = last if char.isspace() else char
        at += 1
    return Slip(f"this {text[open_[-1]]} is not closed", open_[-1]) if open_ else None


def _end_of_quote(text: str, at: int) -> int:
    """Return the place of the closing quote; -1 if there is none."""
    if text[at] == "'":
        found = re.compile(r"(?:[^']|'')*'").match(text, at + 1)
    else:
        found = re.compile(r'(?:[^"\\]|\\.)*"', re.DOTALL).match(text, at + 1)
    return found.end() - 1 if found else -1


def lone_word(text: str) -> str:
    """Return a text that is a single word, or words with ``|`` between them; empty for prose, a form or nothing.

    Example:
        >>> lone_word("nonsense"), lone_word("a | b"), lone_word("In one sentence.")
        ('nonsense', 'a | b', '')
    """
    is_one = bool(_LONE.fullmatch(text)) and text[0] not in _BRACKETS and text[-1] not in "}]" and ":" not in text
    return text if is_one or _ALTERNATIVES.fullmatch(text) or _OF_OTHERS.fullmatch(text) else ""


def choice_of(text: str, types: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the schema of words with ``|`` between them; None for another text, and for types among other words.

    Args:
        text: The text.
        types: The schemas of the words that are types.

    Example:
        >>> choice_of("a | b", {}), choice_of("1 | 2", {})
        ({'enum': ['a', 'b']}, {'enum': [1, 2]})
    """
    if not _ALTERNATIVES.fullmatch(text.strip()):
        return None
    parts = [part.strip() for part in text.split("|")]
    if all(part in types or part == "null" for part in parts):
        schemas: list[dict[str, Any]] = [{"type": "null"} if part == "null" else dict(types[part]) for part in parts]
        return {"anyOf": schemas} if all(schemas) else {}
    if any(part in types or _slip_of(part, list(types)) for part in parts):
        return None
    numbers = [_number(part) for part in parts]
    return {"enum": [part.strip("'\"") for part in parts] if None in numbers else numbers}


def _number(text: str) -> int | float | None:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def is_of_a_type(text: str, types: Mapping[str, Any]) -> bool:
    """Return True if a text of a form without braces is meant as a type: a type, nearly a type, or a choice.

    Args:
        text: The text.
        types: The words that are types.
    """
    word = text.strip()
    bare = word.lower().removesuffix("[]").removesuffix("?")
    return bare in types or bool(_ALTERNATIVES.fullmatch(word)) or any(_is_near(word.lower(), each) for each in types)


def word_slip(text: str, key: str, types: Sequence[str]) -> str | None:
    """Return the fault of a text that is neither a type nor a description; None for a valid text.

    Args:
        text: The text.
        key: The key of the text in the form.
        types: The words that are types.
    """
    word = text.strip()
    if _ALTERNATIVES.fullmatch(word):
        return (
            f"{word!r} mixes types with other words; write types, as in string | null, or a choice, as in "
            f"{{{key.removesuffix(OPTIONAL) or 'kind'}: {{enum: [a, b]}}}}"
        )
    if word in types:
        return None
    what = _slip_of(word, types)
    return what and f"{word!r} is not a type{what}"


def _slip_of(word: str, types: Sequence[str]) -> str | None:
    """Return what to write in place of a word that is nearly a type, or a type elsewhere; None for another word."""
    low = word.lower()
    bare = low.removesuffix("[]").removesuffix("?")
    if bare != low and bare in types:
        return f"; write [{bare}]" if low.endswith("[]") else f"; write {bare} | null, or KEY?: {bare}"
    if other := _OF_OTHERS.fullmatch(word):
        return f"; write {_WRITTEN.get(other[1].lower(), 'a JSON Schema')}"
    if low in _WRITTEN:
        return f"; write {_WRITTEN[low]}, or describe a text in several words"
    near = next((each for each in types if _is_near(low, each)), None)
    return near and f" (did you mean {near!r}?); describe a text in several words"


def _is_near(word: str, known: str) -> bool:
    """Return True if a word differs from a type by one letter more, less or other, or by two letters swapped."""
    if word in (known, f"{known}s"):
        return True
    if len(known) < 5:
        return False
    begin = 0
    while begin < min(len(word), len(known)) and word[begin] == known[begin]:
        begin += 1
    one, other = word[begin:], known[begin:]
    while one and other and one[-1] == other[-1]:
        one, other = one[:-1], other[:-1]
    return max(len(one), len(other)) <= 1 or (len(one) == 2 and one == other[::-1])


# YAML


def read_yaml_form(text: str) -> tuple[Any, Sequence[Slip]]:
    """Return the value of YAML text, and its faults: duplicate keys, and keys without a value in braces.

    Raises:
        ValueError: It is not YAML, or has values that JSON lacks; the place is the second argument, if it is known.
    """
    import yaml

    try:
        loader: Any = _loader()(text)
        return loader.get_single_data(), tuple(loader.slips)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = " ".join(f"{error.context or ''} {error.problem or ''}".split())
        raise ValueError(what, mark.index if mark else None) from error
    except (yaml.YAMLError, LookupError, AttributeError) as error:  # the latter for a value that does not match its tag
        raise ValueError(" ".join(str(error).split()), None) from error


def value_at(form: Any, path: PathInForm) -> str:
    """Return the text of the value at a path."""
    for key in path:
        form = form[key]
    return str(form)


def place_of(text: str, path: PathInForm, value: str) -> int | None:
    """Return the place of a value in a form's text; if the path does not lead to it, of the first such text."""
    import yaml

    try:
        node: Any = yaml.compose(text, _loader())  # pyright: ignore[reportUnknownMemberType] - no stubs
        for key in path:
            node = _inner(node, key)
        return int(node.start_mark.index)
    except (yaml.YAMLError, LookupError, AttributeError, RecursionError):
        at = text.find(value)
        return at if at >= 0 else None


def _inner(node: Any, key: int | str) -> Any:
    if isinstance(key, int):
        return node.value[key]
    return next(value for name, value in reversed(node.value) if name.value == key)


@cache
def _loader() -> type[Any]:
    """Safe loader restricted to values that JSON has; ``on``, ``12:30`` and ``2024-01-01`` are read as text."""
    import yaml
    from yaml.composer import Composer

    parser: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # unlike the C parser, it also reads {why?: string}

    class Loader(Composer, parser):
        yaml_implicit_resolvers = {}  # noqa: RUF012 - as the base class declares it

        def __init__(self, stream: Any) -> None:
            parser.__init__(self, stream)
            Composer.__init__(self)
            self.slips: list[Slip] = []

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            keys: set[Any] = set()
            for key, value in node.value:
                said, at = key.value, key.start_mark.index
                if isinstance(said, str) and said in keys:
                    self.slips.append(Slip(f"duplicate key {said!r}", at, "duplicate-key"))
                elif isinstance(said, str):
                    keys.add(said)
                empty = isinstance(value, yaml.ScalarNode) and value.value == "" and not value.style
                if node.flow_style and empty and said != AND_SO_ON:
                    self.slips.append(
                        Slip(f"the key {said!r} has no value; write KEY: VALUE, with a space behind the colon", at)
                    )
            return cast("Any", super()).construct_mapping(node, deep=deep)

    loader: Any = Loader
    patterns = {
        "bool": r"true|false",
        "null": r"null|~|",
        "int": r"-?(?:0|[1-9][0-9]*)",
        "float": r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?",
    }
    for tag, pattern in patterns.items():
        loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(rf"(?:{pattern})$"), None)
    known = {None, *(f"tag:yaml.org,2002:{tag}" for tag in (*patterns, "str", "seq", "map"))}
    loader.yaml_constructors = {tag: make for tag, make in loader.yaml_constructors.items() if tag in known}
    return loader
