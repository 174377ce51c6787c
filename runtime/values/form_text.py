"""Syntax of answer forms: matching brackets, keys with values, type words; each fault with its place.

The grammar, as JSON or as YAML: a form is a mapping of keys to values, a list of values, or a JSON Schema; a value is a
type (`string`, `number`, `integer`, `boolean`, `any`), a choice (``a | b`` or ``{enum: [a, b]}``), a number, true,
false, null, a text that describes a string, or a form. A key that ends with ``?`` may be missing from the answer.
A text that is a single word must be a type; a text of several words is a description.
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
"""Characters after which a quote opens a quoted text; elsewhere it is an apostrophe."""
_EXCERPT = 40
"""Number of characters that an error shows before a fault, and after it."""

_EQUIVALENTS: Mapping[str, str] = {
    **dict.fromkeys(("list", "array", "tuple"), "[string]"),
    **dict.fromkeys(("object", "dict", "map", "mapping"), "{key: string}"),
    **dict.fromkeys(("double", "decimal", "real"), "number"),
    **dict.fromkeys(("long", "whole"), "integer"),
    **dict.fromkeys(("null", "none", "unknown", "json"), "any"),
    "enum": "{enum: [a, b]}",
}
"""Type words of other languages, with their equivalents here."""

_FOREIGN_TYPE = re.compile(
    r"(list|array|tuple|set|dict|map|optional|union|literal|enum)\s*[\[(<].*", re.IGNORECASE | re.DOTALL
)
_ALTERNATIVE = r"""(?:[\w.+-]+|'[^'|]*'|"[^"|]*")"""
_ALTERNATIVES = re.compile(rf"{_ALTERNATIVE}(?:\s*\|\s*{_ALTERNATIVE})+")
_ONE_WORD = re.compile(r"[!-~]+")  # ASCII: Chinese prose has no spaces
_BRACKETS = frozenset("{[")


class FormFault(NamedTuple):
    """Fault in a form's text.

    Attributes:
        what: Description of the fault and its remedy.
        at: Position of the fault in the form, in characters; None if unknown.
        code: Kind of fault.
    """

    what: str
    at: int | None = None
    code: str = "unreadable"


def fault_message(slip: FormFault, text: str, before: int = 0) -> str:
    """Return the message of a fault: line, column, an excerpt with ``^`` before the place, and the description.

    Args:
        slip: The fault.
        text: The text.
        before: Offset of the form in the text; places are counted from there.

    Example:
        >>> fault_message(FormFault("'strng' is not a type", 6), "{why: strng}")
        "line 1, column 7, at the ^ of {why: ^strng}: 'strng' is not a type"
    """
    if slip.at is None:
        return slip.what
    at = min(before + slip.at, len(text))
    line, start = text.count("\n", 0, at) + 1, text.rfind("\n", 0, at) + 1
    end = text.find("\n", at)
    excerpt = text[max(start, at - _EXCERPT) : at] + "^" + text[at : len(text) if end < 0 else end][:_EXCERPT]
    return f"line {line}, column {at - start + 1}, at the ^ of {excerpt}: {slip.what}"


def bracket_fault(text: str) -> FormFault | None:
    """Return the first fault of brackets and quotes: unclosed, unexpected, or followed by text; None if all match."""
    open_brackets: list[int] = []
    at, last = 0, ""
    while at < len(text):
        char = text[at]
        if char in "\"'" and open_brackets and last in _BEFORE_QUOTE:
            end = _end_of_quote(text, at)
            if end < 0:
                return FormFault(f"this {char} is not closed", at)
            at = end
        elif char == "#" and open_brackets and text[at - 1].isspace():
            at = text.find("\n", at) if "\n" in text[at:] else len(text)
        elif char in _PAIRS:
            open_brackets.append(at)
        elif char in "}]":
            if not open_brackets:
                return FormFault(f"{char} without an opening bracket", at)
            opening = text[open_brackets.pop()]
            if _PAIRS[opening] != char:
                return FormFault(f"{char} where {_PAIRS[opening]} must close {opening}", at)
            if not open_brackets and (rest := text[at + 1 :].strip()):
                return FormFault(
                    "the form ends before this; begin with words, if words are meant", text.index(rest, at + 1)
                )
        last = last if char.isspace() else char
        at += 1
    return FormFault(f"this {text[open_brackets[-1]]} is not closed", open_brackets[-1]) if open_brackets else None


def _end_of_quote(text: str, at: int) -> int:
    """Return the position of the quote that closes the one at position `at`; -1 if there is none."""
    if text[at] == "'":
        match = re.compile(r"(?:[^']|'')*'").match(text, at + 1)
    else:
        match = re.compile(r'(?:[^"\\]|\\.)*"', re.DOTALL).match(text, at + 1)
    return match.end() - 1 if match else -1


def lone_word(text: str) -> str:
    """Return the text if it is a single word, or words with ``|`` between them; otherwise an empty string.

    Example:
        >>> lone_word("nonsense"), lone_word("a | b"), lone_word("In one sentence.")
        ('nonsense', 'a | b', '')
    """
    is_single = (
        bool(_ONE_WORD.fullmatch(text)) and text[0] not in _BRACKETS and text[-1] not in "}]" and ":" not in text
    )
    return text if is_single or _ALTERNATIVES.fullmatch(text) or _FOREIGN_TYPE.fullmatch(text) else ""


def choice_of(text: str, types: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the schema of a choice: words with ``|`` between them; None for other texts, and for types among words.

    Args:
        text: The text.
        types: Schemas of the type words.

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
    if any(part in types or _correction(part, list(types)) for part in parts):
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
    """Return True if a text in YAML without braces is meant as a type: a type word, a misspelt one, or a choice.

    Args:
        text: The text.
        types: The words that are types.
    """
    word = text.strip()
    type_word = word.lower().removesuffix("[]").removesuffix("?")
    return (
        type_word in types or bool(_ALTERNATIVES.fullmatch(word)) or any(_is_near(word.lower(), each) for each in types)
    )


def word_fault(text: str, key: str, types: Sequence[str]) -> str | None:
    """Return the description of a fault if a text is neither a type nor a description; None for a valid text.

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
    correction = _correction(word, types)
    return correction and f"{word!r} is not a type{correction}"


def _correction(word: str, types: Sequence[str]) -> str | None:
    """Return the end of an error message that says what to write in place of a word; None for a word unlike any type.

    Words that resemble types are misspelt types, types of other languages, and types with ``[]`` or ``?`` behind them.
    """
    lowered = word.lower()
    type_word = lowered.removesuffix("[]").removesuffix("?")
    if type_word != lowered and type_word in types:
        return (
            f"; write [{type_word}]" if lowered.endswith("[]") else f"; write {type_word} | null, or KEY?: {type_word}"
        )
    if foreign := _FOREIGN_TYPE.fullmatch(word):
        return f"; write {_EQUIVALENTS.get(foreign[1].lower(), 'a JSON Schema')}"
    if lowered in _EQUIVALENTS:
        return f"; write {_EQUIVALENTS[lowered]}, or describe a text in several words"
    near = next((each for each in types if _is_near(lowered, each)), None)
    return near and f" (did you mean {near!r}?); describe a text in several words"


def _is_near(word: str, known: str) -> bool:
    """Return True if a word is a known type in the plural or with one typing error.

    A typing error adds, omits or replaces a letter, or swaps two. Words of less than five letters have only plurals.
    """
    if word in (known, f"{known}s"):
        return True
    if len(known) < 5:
        return False
    begin = 0
    while begin < min(len(word), len(known)) and word[begin] == known[begin]:
        begin += 1
    rest, known_rest = word[begin:], known[begin:]
    while rest and known_rest and rest[-1] == known_rest[-1]:
        rest, known_rest = rest[:-1], known_rest[:-1]
    return max(len(rest), len(known_rest)) <= 1 or (len(rest) == 2 and rest == known_rest[::-1])


# YAML


def read_yaml_form(text: str) -> tuple[Any, Sequence[FormFault]]:
    """Return the value of YAML text, and its faults: duplicate keys, and keys without a value in braces.

    Raises:
        ValueError: The text is not YAML, or has values that JSON lacks; the arguments are the message and the position.
    """
    import yaml

    try:
        loader: Any = _loader()(text)
        return loader.get_single_data(), tuple(loader.slips)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = " ".join(f"{error.context or ''} {error.problem or ''}".split())
        raise ValueError(problem, mark.index if mark else None) from error
    except (yaml.YAMLError, LookupError, AttributeError) as error:  # the last two: a value that does not match its tag
        raise ValueError(" ".join(str(error).split()), None) from error


def value_at(form: Any, path: PathInForm) -> str:
    """Return the text of the value at a path."""
    for key in path:
        form = form[key]
    return str(form)


def place_of(text: str, path: PathInForm, value: str) -> int | None:
    """Return the position of the value at a path of a form's text; without such a path, of the first equal text."""
    import yaml

    try:
        node: Any = yaml.compose(text, _loader())  # pyright: ignore[reportUnknownMemberType] - no stubs
        for key in path:
            node = _child(node, key)
        return int(node.start_mark.index)
    except (yaml.YAMLError, LookupError, AttributeError, RecursionError):
        at = text.find(value)
        return at if at >= 0 else None


def _child(node: Any, key: int | str) -> Any:
    if isinstance(key, int):
        return node.value[key]
    return next(value for name, value in reversed(node.value) if name.value == key)


@cache
def _loader() -> type[Any]:
    """Return a safe YAML loader restricted to values that JSON has; ``on``, ``12:30`` and ``2024-01-01`` are text."""
    import yaml
    from yaml.composer import Composer

    parser: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # unlike the C parser, it also reads {why?: string}

    class Loader(Composer, parser):
        yaml_implicit_resolvers = {}  # noqa: RUF012 - as the base class declares it

        def __init__(self, stream: Any) -> None:
            parser.__init__(self, stream)
            Composer.__init__(self)
            self.slips: list[FormFault] = []

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            keys: set[Any] = set()
            for key, value in node.value:
                name, at = key.value, key.start_mark.index
                if isinstance(name, str) and name in keys:
                    self.slips.append(FormFault(f"duplicate key {name!r}", at, "duplicate-key"))
                elif isinstance(name, str):
                    keys.add(name)
                empty = isinstance(value, yaml.ScalarNode) and value.value == "" and not value.style
                if node.flow_style and empty and name != AND_SO_ON:
                    self.slips.append(
                        FormFault(f"the key {name!r} has no value; write KEY: VALUE, with a space behind the colon", at)
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
