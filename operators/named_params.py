"""Parameters of nodes in YAML: names in place of positions, ``id.variable`` for a variable.

| declared | in lists, as Chat2Workflow writes it | with names |
|---|---|---|
| a variable | ``[text, "3"]`` | ``3.text`` |
| a tuple | ``[what it is, city, string]`` | ``{name: city, type: string, description: what it is}`` |
| a list of pairs of a name and a value | ``[[city, [city, "3"]]]`` | ``{city: 3.city}`` |

`positional` reads both forms and returns lists, which workflows use; `named` returns names.
"""

from __future__ import annotations

import re
import types
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any, Union, cast, get_args, get_origin, get_type_hints

from operad.operators.node_params import NodeParams
from operad.operators.variables import Selector


def positional(params_type: type[NodeParams], params: Any) -> Any:
    """Return parameters with lists in place of names.

        positional(EndParams, {"outputs": {"summary": "3.text"}})  # {"outputs": [["summary", ["text", "3"]]]}

    Args:
        params: Parameters in either form. Values that fit neither form are unchanged, and reported by the validation.
    """
    return _convert_fields(params_type, params, in_lists)


def named(params_type: type[NodeParams], params: Any) -> Any:
    """Return parameters with names in place of lists; `positional` reverses this.

    Args:
        params: Parameters in lists. Values that do not fit their declaration are unchanged.
    """
    return _convert_fields(params_type, params, _with_names)


def _convert_fields(params_type: type[NodeParams], params: Any, change: Any) -> Any:
    if not isinstance(params, Mapping):
        return params
    hints = _hints(params_type)
    given = cast("Mapping[str, Any]", params)
    return {name: change(hints[name], value) if name in hints else value for name, value in given.items()}


@lru_cache(maxsize=256)
def _hints(declared: type[Any]) -> Mapping[str, Any]:
    """Return the types of the fields of a class by name, without annotations; ``X | None`` becomes X."""
    return {name: _bare_type(hint) for name, hint in get_type_hints(declared, include_extras=False).items()}


def _bare_type(hint: Any) -> Any:
    """Return a type without annotations and None; None for other unions."""
    if get_origin(hint) is Annotated:
        return _bare_type(get_args(hint)[0])
    if get_origin(hint) in (Union, types.UnionType):
        kinds = [each for each in get_args(hint) if each is not type(None)]
        return (
            _bare_type(kinds[0]) if len(kinds) == 1 else None
        )  # in other unions with text, id.variable would be ambiguous
    return hint


def _item_type(hint: Any) -> Any:
    """Return the type of the items of a list type; None for other types."""
    given = get_args(hint) if get_origin(hint) in (list, Sequence) else ()
    return _bare_type(given[0]) if given else cast("Any", None)


def is_tuple(hint: Any) -> bool:
    """Return True if a type is a named tuple."""
    return isinstance(hint, type) and issubclass(hint, tuple) and hasattr(cast("Any", hint), "_fields")


def is_pair(hint: Any) -> bool:
    """Return True if a type is a named tuple of a name and a value."""
    return is_tuple(hint) and len(_field_names(hint)) == 2 and _field_names(hint)[0] == "name"


def _field_names(hint: Any) -> tuple[str, ...]:
    """Return the names of the fields of a named tuple."""
    return hint._fields


def _second_type(pair: Any) -> Any:
    """Return the type of the second field of a pair."""
    return _hints(pair)[_field_names(pair)[1]]


# Reading


def in_lists(hint: Any, value: Any) -> Any:
    """Return a value of a declared type with lists in place of names; see `positional`."""
    if hint is Selector:
        return _selector(value)
    if is_tuple(hint):
        return _tuple(hint, value)
    if (inner := _item_type(hint)) is None:
        return value
    if isinstance(value, Mapping) and is_pair(inner):
        second = _second_type(inner)
        return [[name, in_lists(second, each)] for name, each in cast("Mapping[str, Any]", value).items()]
    return (
        [in_lists(inner, each) for each in cast("list[Any]", value)] if isinstance(value, list) else cast("Any", value)
    )


def _selector(value: Any) -> Any:
    if isinstance(value, Mapping):
        given = cast("Mapping[str, Any]", value)
        return [given["variable"], given["node"]] if set(given) == {"variable", "node"} else given
    text = value.removeprefix("{{#").removesuffix("#}}") if isinstance(value, str) else ""
    node, dot, variable = text.partition(".")
    return [variable, node] if dot and node and variable else value


def _tuple(hint: Any, value: Any) -> Any:
    """Return a tuple as a list of its fields in order; a value of another form is unchanged."""
    hints, names = _hints(hint), _field_names(hint)
    if isinstance(value, list):
        given = cast("list[Any]", value)
        return [in_lists(hints[name], each) for name, each in zip(names, given, strict=False)] + given[len(names) :]
    known = cast("Mapping[str, Any]", value if isinstance(value, Mapping) else {})
    if not known or not set(known) <= set(names):
        return cast("Any", value)
    last = max(names.index(name) for name in known)
    if any(name not in known and name not in _defaults(hint) for name in names):
        return known
    return [
        in_lists(hints[name], known[name]) if name in known else _defaults(hint)[name] for name in names[: last + 1]
    ]


@lru_cache(maxsize=256)
def _defaults(hint: Any) -> Mapping[str, Any]:
    """Return the default values of the optional fields of a tuple: those with a default, and those that may be None."""
    optional = {
        name: None for name, each in get_type_hints(hint, include_extras=False).items() if type(None) in get_args(each)
    }
    return {**optional, **{name: _plain_value(value) for name, value in hint._field_defaults.items()}}


def _plain_value(value: Any) -> Any:
    return str(value) if isinstance(value, str) else value


# Writing


def _with_names(hint: Any, value: Any) -> Any:
    """Return a value of a declared type with names in place of lists; see `named`."""
    if hint is Selector:
        written = ".".join(reversed(value)) if _are_texts(value) else value
        return written if _selector(written) == value else value
    if is_tuple(hint):
        return _named_tuple(hint, value)
    inner = _item_type(hint)
    given = cast("list[Any]", value)
    if inner is None or not isinstance(value, list):
        return given
    if is_pair(inner) and _are_pairs(given):
        second = _second_type(inner)
        return {name: _with_names(second, each) for name, each in given}
    return [_with_names(inner, each) for each in given]


def _named_tuple(hint: Any, value: Any) -> Any:
    """Return a list as a mapping of field names to values, without optional fields that have their default."""
    names, hints, defaults = _field_names(hint), _hints(hint), _defaults(hint)
    given = cast("list[Any]", value)
    if (
        not isinstance(value, list)
        or not 0 < len(given) <= len(names)
        or any(name not in defaults for name in names[len(given) :])
    ):
        return given
    last = len(given) - 1
    written = {
        name: _with_names(hints[name], each)
        for place, (name, each) in enumerate(zip(names, given, strict=False))
        if place == last or name not in defaults or not _is_identical(each, defaults[name])
    }
    return {name: written[name] for name in _in_written_order(written)}


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and [type(each) for each in cast("list[Any]", value)] == [str, str]


def _are_pairs(items: Sequence[Any]) -> bool:
    """Return True if the items are pairs that begin with different names."""
    if not items or not all(isinstance(each, list) and len(cast("list[Any]", each)) == 2 for each in items):
        return False
    names = [each[0] for each in items]
    return all(isinstance(name, str) and name for name in names) and len(set(names)) == len(names)


def _is_identical(value: Any, other: Any) -> bool:
    return type(value) is type(other) and value == other


# Places


def written_path(params_type: type[NodeParams], params: Any, path: Sequence[str | int]) -> list[str | int]:
    """Convert a path into the lists of `positional` to a path into the parameters as they are written.

        written_path(EndParams, {"outputs": {"summary": "3.text"}}, ["outputs", 0, 1])  # ["outputs", "summary"]

    Args:
        path: Keys and indices; the rest is omitted if a text stands for a list.
    """
    if not path or not isinstance(params, Mapping):
        return list(path)
    name, *rest = path
    written: list[str | int] = [name]
    value, hint = cast("Mapping[Any, Any]", params).get(name), _hints(params_type).get(str(name))
    while rest and isinstance(value, Mapping | list):
        step, *rest = rest
        inner = _item_type(hint)
        if isinstance(step, int) and isinstance(value, Mapping) and is_pair(inner):
            step, hint = list(cast("Mapping[str, Any]", value))[step], _hints(inner)["name"]
            if rest[:1] != [0]:
                hint = _second_type(inner)
            rest = rest[1:]
        elif isinstance(step, int) and is_tuple(hint) and step < len(_field_names(hint)):
            field = _field_names(hint)[step]
            step, hint = (field if isinstance(value, Mapping) else step), _hints(hint)[field]
        else:
            hint = inner
        written.append(step)
        value = _item_at(value, step)
    return written


def listed_path(params_type: type[NodeParams], params: Any, path: Sequence[str | int]) -> list[str | int]:
    """Convert a path with names to a path into lists.

        listed_path(EndParams, {"outputs": [["summary", ["text", "3"]]]}, ["outputs", "summary"])  # ["outputs", 0, 1]

    Args:
        params_type: Declaration of the parameters.
        params: The parameters, in lists.
        path: Keys and indices; steps that do not exist in the parameters are unchanged.
    """
    name, *rest = path
    listed: list[str | int] = [name]
    value, hint = _item_at(params, name), _hints(params_type).get(str(name))
    for step in rest:
        inner, steps = _item_type(hint), [step]
        if is_tuple(hint) and step in _field_names(hint):
            steps = [_field_names(hint).index(step)]
        elif isinstance(step, str) and is_pair(inner) and isinstance(value, list):
            pairs = cast("list[Any]", value)
            steps = next(([number, 1] for number, each in enumerate(pairs) if _item_at(each, 0) == step), steps)
            hint = inner if len(steps) > 1 else hint
        for each in steps:
            is_field = is_tuple(hint) and isinstance(each, int) and each < len(_field_names(hint))
            hint = _hints(hint)[_field_names(hint)[int(each)]] if is_field else _item_type(hint)
            value = _item_at(value, each)
        listed += steps
    return listed


def named_place(params_type: type[NodeParams], where: str) -> str:
    """Return the path of a parameter with names in place of the indices of tuples.

    named_place(EndParams, "outputs[0][1]")  # outputs[0].value
    """
    steps = re.findall(r"\[(\d+)\]|([^.\[\]]+)", where)
    if len(steps) < 2 or "".join(f"[{number}]" if number else f".{name}" for number, name in steps) != f".{where}":
        return where
    hint, place = _hints(params_type).get(steps[0][1]), steps[0][1]
    for number, name in steps[1:]:
        if number and is_tuple(hint) and int(number) < len(_field_names(hint)):
            field = _field_names(hint)[int(number)]
            place, hint = f"{place}.{field}", _hints(hint)[field]
        else:
            place, hint = place + (f"[{number}]" if number else f".{name}"), _item_type(hint)
    return place


def _item_at(value: Any, step: str | int) -> Any:
    try:
        return value[step]
    except (LookupError, TypeError):
        return None


# Forms


def form(hint: Any) -> str:
    """Return a template of the way in which a parameter of a type is written; empty for a plain value.

    form(list[Output])  # {name: id.variable, …}
    """
    kind = _bare_type(hint)
    if kind is Selector:
        return "id.variable"
    if is_tuple(kind):
        return f"{{{', '.join(_field_form(kind, name) for name in _in_written_order(_field_names(kind)))}}}"
    inner = _item_type(kind)
    if is_pair(inner):
        return f"{{name: {form(_second_type(inner)) or _field_names(inner)[1]}, …}}"
    return f"[{form(inner)}, …]" if inner is not None and form(inner) else ""


def _field_form(kind: Any, name: str) -> str:
    field_form = form(_hints(kind)[name])
    return f"{name}{'?' if name in _defaults(kind) else ''}{f': {field_form}' if field_form else ''}"


def _in_written_order(names: Iterable[str]) -> list[str]:
    """Return the names of fields in the order in which they are written: ``name`` first, ``description`` last."""
    return sorted(names, key=lambda name: (name != "name", name == "description"))
