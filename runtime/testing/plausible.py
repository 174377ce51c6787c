"""A value that fits a JSON Schema, for tests."""

from __future__ import annotations

import json
import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from fractions import Fraction
from itertools import count, islice, product
from typing import Any, cast

from operad.runtime.values.errors import InputError
from operad.runtime.values.json_schema import EndlessSchemaError, matcher, schema_errors, validator_of

# Texts for tests: of a format of JSON Schema, and of a regular expression.

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


MAX_TRIES = 100
"""Maximum number of values that are tried for a part of a schema, beyond the number of those that are needed."""

AT_ONCE = 5
"""Number of values of an alternative that are tried before the next alternative."""

MAX_WORK = 20_000
"""Maximum number of values that are tried for all parts of a schema."""

MAX_DEPTH = 30
"""Maximum nesting of a value."""

MAX_LENGTH = 10_000
"""Maximum number of items or keys of a value."""

Schema = Mapping[str, Any]

_KINDS: Mapping[str, Sequence[str]] = {
    "object": (
        "properties required additionalProperties minProperties maxProperties patternProperties propertyNames "
        "dependentRequired"
    ).split(),
    "array": "items prefixItems minItems maxItems uniqueItems contains".split(),
    "string": "pattern format minLength maxLength".split(),
    "number": "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf".split(),
    "boolean": (),
    "null": (),
}
"""Types, with the keywords by which a schema without a type is one of them."""


def plausible(schema: Schema) -> Any:
    """Return a value that fits a JSON Schema: the first alternative, one item per list, ``text`` for strings.

        print(plausible({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}))

    References inside the schema are followed; recursive ones end as soon as the schema allows. Formats have a fixed
    example each.

    Raises:
        InputError: No fitting value was found; the error names the place in the schema.
    """
    try:
        return _Search(schema).values(schema, "$", 0, (), 1)[0]
    except (EndlessSchemaError, RecursionError) as error:
        raise _no_value("$", "its values would have no end") from error
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise _no_value("$", f"it is not a valid JSON Schema ({type(error).__name__}: {error})") from error


def plausible_answer(request: Mapping[str, Any]) -> str:
    """Return JSON that fits the schema in a request, or a word if there is none.

    Raises:
        InputError: As `plausible`.
    """
    chat: Any = request.get("response_format") or {}
    responses: Any = request.get("text") or {}
    form: Any = chat.get("json_schema") or responses.get("format") or {}
    schema = form.get("schema")
    return "text" if schema is None else json.dumps(plausible(schema))


class _Search:
    """Search for values that fit the parts of a JSON Schema; each part is validated as soon as it is made."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._validator = validator_of(root)
        self._work = 0

    def values(self, schema: Any, place: str, depth: int, followed: tuple[str, ...], wanted: int) -> list[Any]:
        """Return up to `wanted` different values that fit a part of the schema, at least one.

        Args:
            place: Its place, for errors.
            depth: Number of parts around it.
            followed: References that led to it.

        Raises:
            InputError: No value was found.
        """
        found: dict[str, Any] = {}
        fault = "it allows no value" if depth < MAX_DEPTH else "its values would have no end"
        validator = self._validator.evolve(schema=schema)
        try:
            is_possible = depth < MAX_DEPTH and schema is not False
            candidates = self._candidates(schema, place, depth, followed, wanted) if is_possible else iter(())
            for value in islice(candidates, wanted + MAX_TRIES):
                self._work += 1
                if self._work > MAX_WORK:
                    raise _no_value(place, "the schema is too complex")
                errors = schema_errors(validator, value)
                if not errors:
                    found.setdefault(json.dumps(value, sort_keys=True), value)
                elif not found:
                    fault = errors[0].message[:200]
                if len(found) >= wanted:
                    break
        except InputError:
            if not found:
                raise
        if not found:
            raise _no_value(place, fault)
        return list(found.values())

    def _candidates(self, schema: Any, place: str, depth: int, followed: tuple[str, ...], wanted: int) -> Iterator[Any]:
        """Yield values that may fit a part of the schema, the most plausible first."""
        if isinstance(schema, bool):
            schema = {}
        if "const" in schema:
            yield schema["const"]
            return
        if "enum" in schema:
            yield from schema["enum"]
            return
        if "$ref" in schema:
            reference = str(schema["$ref"])
            merged = _merged(_without(schema, "$ref"), self._target(reference, place))
            yield from self._candidates(merged, place, depth + 1, (*followed, reference), wanted)
            return
        if "allOf" in schema:
            merged = _without(schema, "allOf")
            for part in schema["allOf"]:
                merged = _merged(merged, part)
            yield from self._candidates(merged, f"{place}.allOf", depth + 1, followed, wanted)
            return
        if branches := _branches(schema, is_repeated=len(set(followed)) < len(followed)):
            each = [
                self._candidates(branch, f"{place}.{name}".rstrip("."), depth + 1, followed, wanted)
                for name, branch in branches
                if branch is not False
            ]
            yield from _in_turn(each if depth < MAX_DEPTH else [])
            return
        makers: Mapping[str, Callable[..., Iterator[Any]]] = {
            "object": self._objects,
            "array": self._arrays,
            "string": _strings,
            "number": _numbers,
            "integer": _numbers,
            "boolean": lambda *_: iter((True, False)),
            "null": lambda *_: iter((None,)),
        }
        yield from _in_turn([makers[kind](schema, place, depth, followed, wanted) for kind in _kinds(schema)])

    def _target(self, reference: str, place: str) -> Any:
        target: Any = self._root
        try:
            for part in filter(None, reference.removeprefix("#").split("/")):
                key = part.replace("~1", "/").replace("~0", "~")
                target = _part_of(target, key)
        except (LookupError, TypeError, ValueError) as error:
            raise _no_value(
                place, f"the reference {reference!r} has no target that is a path in this schema"
            ) from error
        return target

    def _objects(
        self, schema: Schema, place: str, depth: int, followed: tuple[str, ...], wanted: int
    ) -> Iterator[dict[str, Any]]:
        """Yield objects: with all keys, with the required ones alone, and with the required ones and one other."""
        required = list(dict.fromkeys(schema.get("required", ())))
        values = self._values_by_key(schema, place, depth, followed, wanted)
        optional = [name for name in values if name not in required]
        most = max(schema.get("maxProperties", len(values)) - len(required), 0)
        for others in (optional[:most], [], *([name] for name in optional)):
            kept = {name: each for name, each in values.items() if name in required or name in others}
            for number in range(wanted):
                yield {name: each[min(number, len(each) - 1)] for name, each in kept.items()}

    def _values_by_key(
        self, schema: Schema, place: str, depth: int, followed: tuple[str, ...], wanted: int
    ) -> dict[str, list[Any]]:
        """Return values for each key: the required ones, others if there is no recursion, and as many as needed."""
        properties: Schema = schema.get("properties", {})
        required: Sequence[str] = schema.get("required", ())
        is_repeated = len(set(followed)) < len(followed)
        least = schema.get("minProperties", 0)
        values: dict[str, list[Any]] = {}
        for name in dict.fromkeys([*properties, *required]):
            if is_repeated and name not in required:
                continue
            part = properties.get(name, _of_other_key(schema, name))
            try:
                values[name] = self.values(part, f"{place}.{name}", depth + 1, followed, wanted)
            except InputError:
                if name in required:
                    raise
        others = self._other_keys(schema, place, depth, followed) if len(values) < least else iter(())
        for name in islice(others, min(least, MAX_LENGTH) * 2):
            if name not in values and name not in properties:
                part = _of_other_key(schema, name)
                values[name] = self.values(part, f"{place}.{name}", depth + 1, followed, wanted)
            if len(values) >= least:
                break
        return values

    def _other_keys(self, schema: Schema, place: str, depth: int, followed: tuple[str, ...]) -> Iterator[str]:
        """Yield names of keys that are not among the properties."""
        for pattern in schema.get("patternProperties", {}):
            yield from islice(texts_of_pattern(pattern, 0), MAX_TRIES)
        names = schema.get("propertyNames")
        if isinstance(names, dict):
            least = schema.get("minProperties", 0) + len(schema.get("properties", {}))
            yield from self.values({"type": "string", **names}, f"{place}.propertyNames", depth + 1, followed, least)
        yield from (f"key{number}" for number in count(1))

    def _arrays(
        self, schema: Schema, place: str, depth: int, followed: tuple[str, ...], wanted: int
    ) -> Iterator[list[Any]]:
        """Yield lists: with one item or as many as needed, then with fewer or more."""
        prefix: Sequence[Any] = schema.get("prefixItems", ())
        is_repeated = len(set(followed)) < len(followed)
        least, most = schema.get("minItems", 0), schema.get("maxItems", MAX_LENGTH)
        items: Any = schema.get("items", True)
        if isinstance(items, list):  # before draft 2020-12
            prefix, items = cast("list[Any]", items), schema.get("additionalItems", True)
        contained = schema.get("contains")
        needed = schema.get("minContains", 1) if contained is not None else 0
        if max(least, needed) > MAX_LENGTH:
            raise _no_value(place, f"a list of {max(least, needed):,} items is too long to be made up")
        usual = max(least, needed, len(prefix), 0 if is_repeated or items is False or prefix else 1)
        fault: InputError | None = None
        for length in dict.fromkeys((min(usual, most), least, *(min(usual, most) + more for more in range(1, wanted)))):
            places = [(each, f"{place}.prefixItems[{n}]") for n, each in enumerate(prefix[:length])]
            rest = length - len(places)
            inner = _merged(items, contained) if needed else items
            try:
                needs = wanted + length if schema.get("uniqueItems") else wanted
                lists = [self.values(part, where, depth + 1, followed, needs) for part, where in places]
                others = self.values(inner, f"{place}.items", depth + 1, followed, needs) if rest > 0 else []
            except InputError as error:
                fault = fault or error
                continue
            for number in range(wanted):
                made: list[Any] = []
                for choices in (*lists, *[others] * rest):
                    nearest = choices[min(number, len(choices) - 1) :] + choices
                    is_unique = schema.get("uniqueItems")
                    made.append(next((each for each in nearest if not is_unique or each not in made), nearest[0]))
                yield made
        if fault is not None:
            raise fault


def _part_of(value: Any, key: str) -> Any:
    return cast("list[Any]", value)[int(key)] if isinstance(value, list) else value[key]


def _no_value(place: str, why: str) -> InputError:
    return InputError(
        f"Plausible() found no value for {place} of the JSON Schema: {why}; give the answer with Say(…) instead"
    )


def _in_turn(makers: Sequence[Iterator[Any]]) -> Iterator[Any]:
    """Yield the values of several iterators in turn; an error of one is raised if all have ended without a value."""
    fault: InputError | None = None
    left, is_empty = list(makers), True
    while left:
        for maker in tuple(left):
            number = 0
            try:
                for number, value in enumerate(islice(maker, AT_ONCE), 1):  # noqa: B007 - read below
                    yield value
            except InputError as error:
                fault = fault or error
            is_empty = is_empty and not number
            if number < AT_ONCE:
                left.remove(maker)
    if fault is not None and is_empty:
        raise fault


def _kinds(schema: Schema) -> list[str]:
    """Return the types that a schema allows; without a type, the one of its keywords first."""
    given = schema.get("type")
    if given is not None:
        return [given] if isinstance(given, str) else list(given)
    meant = [kind for kind, keywords in _KINDS.items() if schema.keys() & set(keywords)]
    return list(dict.fromkeys([*meant, "string", *_KINDS]))


def _without(schema: Schema, *keys: str) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key not in keys}


def _branches(schema: Schema, *, is_repeated: bool) -> list[tuple[str, Any]]:
    """Return the alternatives of a schema, merged with the rest of it; in a recursion, those without references first."""
    for key in ("anyOf", "oneOf"):
        if key in schema:
            rest, listed = _without(schema, key), list(enumerate(cast("list[Any]", schema[key])))
            if is_repeated:
                listed.sort(key=lambda each: "$ref" in json.dumps(each[1]))
            return [(f"{key}[{number}]", _merged(rest, each)) for number, each in listed]
    if "if" in schema:
        rest = _without(schema, "if", "then", "else")
        then = _merged(_merged(rest, schema["if"]), schema.get("then", True))
        return [("then", then), ("else", _merged(rest, schema.get("else", True)))]
    if "dependentSchemas" in schema:
        rest, dependent = _without(schema, "dependentSchemas"), schema["dependentSchemas"]
        every = rest
        for part in dependent.values():
            every = _merged(every, part)
        bare = {**rest, "properties": _without(rest.get("properties", {}), *dependent)}
        return [("dependentSchemas", every), ("", bare)]
    if "dependentRequired" in schema:
        rest, dependent = _without(schema, "dependentRequired"), schema["dependentRequired"]
        names = [name for key, others in dependent.items() for name in (key, *others)]
        properties = {**dict.fromkeys(names, True), **rest.get("properties", {})}
        bare = {**rest, "properties": _without(rest.get("properties", {}), *dependent)}
        return [("dependentRequired", {**rest, "properties": properties}), ("", bare)]
    return []


def _merged(first: Any, second: Any) -> Any:
    """Return one schema for two that a value must fit both; where they cannot be merged, the first one leads."""
    if isinstance(first, bool) or isinstance(second, bool):
        return False if first is False or second is False else second if first is True else first
    merged: dict[str, Any] = {**second, **first}
    for key in first.keys() & second.keys():
        if key in _MERGES:
            merged[key] = _MERGES[key](first[key], second[key])
        elif key in ("allOf", "anyOf", "oneOf") and first[key] != second[key]:
            others = second[key] if key == "allOf" else [{key: second[key]}]
            merged["allOf"] = [*merged.get("allOf", ()), *others]
    return merged


def _merged_properties(first: Schema, second: Schema) -> Schema:
    return {**first, **second} | {name: _merged(first[name], second[name]) for name in first if name in second}


def _merged_items(first: Sequence[Any], second: Sequence[Any]) -> Sequence[Any]:
    short, long = sorted((first, second), key=len)
    return [*(_merged(one, other) for one, other in zip(short, long, strict=False)), *long[len(short) :]]


def _common_types(first: Any, second: Any) -> list[str]:
    listed = [[each] if isinstance(each, str) else list(each) for each in (first, second)]
    both = [kind for kind in listed[0] if kind in listed[1] or (kind == "integer" and "number" in listed[1])]
    return [*both, *("integer" for kind in listed[1] if kind == "integer" and "number" in listed[0])]


def _of_other_key(schema: Schema, name: str) -> Any:
    """Return the schema of a key that is not among the properties."""
    for pattern, part in schema.get("patternProperties", {}).items():
        if (matches := matcher(pattern)) and matches(name):
            return part
    return schema.get("additionalProperties", True)


def _numbers(schema: Schema, *_: Any) -> Iterator[int | float]:
    """Yield numbers: 1, then those from the lower bound up, from the upper bound down, and between."""
    low, high = (
        [Fraction(str(schema[key])) for key in keys if isinstance(schema.get(key), int | float)]
        for keys in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum"))
    )
    step = abs(Fraction(str(schema["multipleOf"]))) if schema.get("multipleOf") else Fraction(1)
    begin = -(-max(low) // step) * step if low else min([Fraction(1), *(high[:1] and [min(high) // step * step])])
    if not low and schema.get("multipleOf"):
        begin = begin // step * step or step
    end = min(high) // step * step if high else None
    starts = [Fraction(1)] if begin <= 1 and (end is None or end >= 1) and not schema.get("multipleOf") else []
    starts += [begin + step * number for number in range(MAX_TRIES // 3)]
    starts += [end - step * number for number in range(MAX_TRIES // 6)] if end is not None else []
    if low and high:
        starts += [max(low) + (min(high) - max(low)) * Fraction(n, 8) for n in (4, 2, 6, 1, 3, 5, 7)]
    starts += [begin - step * number for number in range(MAX_TRIES)]
    for number in starts:
        with suppress(OverflowError):
            yield int(number) if number.denominator == 1 else float(number)


def _strings(schema: Schema, place: str, *_: Any) -> Iterator[str]:
    """Yield texts: of the pattern, of the format, or ``text``, ``text2`` and so on, with the wanted length."""
    least, most = schema.get("minLength", 0), schema.get("maxLength", MAX_LENGTH * 100)
    if least > MAX_LENGTH * 100:
        raise _no_value(place, f"a text of {least:,} characters is too long to be made up")
    if (example := FORMATS.get(str(schema.get("format")))) is not None:
        yield from map(example, range(MAX_TRIES // 2))
    if (pattern := schema.get("pattern")) is not None:
        try:
            yield from islice(texts_of_pattern(pattern, least), MAX_TRIES * 2)
        except ValueError as error:
            raise _no_value(place, f"texts of the pattern {pattern!r} cannot be made up ({error})") from error
    if schema.get("contentMediaType") == "application/json":
        yield from map(str, range(1, MAX_TRIES))
    for number in count(1):
        ending = "" if number == 1 else str(number)
        yield "text"[: max(most - len(ending), 0)].ljust(least - len(ending), ".") + ending


_MERGES: Mapping[str, Callable[[Any, Any], Any]] = {
    **dict.fromkeys(("properties", "patternProperties", "$defs"), _merged_properties),
    **dict.fromkeys(("items", "additionalProperties", "propertyNames"), _merged),
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), min),
    "prefixItems": _merged_items,
    "required": lambda first, second: [*first, *second],
    "type": _common_types,
    "enum": lambda first, second: [each for each in first if each in second],
}
"""Merges of the values of a keyword in two schemas."""
