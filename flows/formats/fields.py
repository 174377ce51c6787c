"""Declarations of the fields of imported files, and remarks on fields that behave differently here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal, NamedTuple, cast, get_args, get_origin

from pydantic import StrictFloat, TypeAdapter, ValidationError

from operad.flows.formats.shapes import Fields, fields_of, list_of
from operad.runtime.values.errors import InputError, Issue


class Use(Enum):
    """Effect of a field of an imported file."""

    HONOURED = "honoured"
    NO_EFFECT = "no effect"
    NOTE = "note"
    LOSSY = "lossy"
    REFUSED = "refused"


def is_set(value: Any) -> bool:
    """Return True unless a value is null, false, zero or empty.

    Example:
        >>> is_set({"enabled": False}), is_set([])
        (True, False)
    """
    return value not in (None, "", False, 0) and value != [] and value != {}


def is_enabled(value: Any) -> bool:
    """Return True if the key `enabled` of a feature is true."""
    return fields_of(value).get("enabled") is True


def unless(*values: Any) -> Callable[[Any], bool]:
    """Return a condition for `Declared.when`: a value is neither null, nor the empty text, nor one of these."""
    others = (None, "", *values)

    def is_other(value: Any) -> bool:
        return value not in others

    return is_other


@dataclass(frozen=True, slots=True)
class Declared:
    """Declaration of a field.

    Attributes:
        use: The effect of the field.
        behaviour: The behaviour here instead; only for a note, a loss and a refusal.
        when: Condition on the value of the field; a value that does not meet it has no effect.
        kind: Reader of a field of one type, whose scalars files may write as text; None for other fields.
    """

    use: Use
    behaviour: str = ""
    when: Callable[[Any], bool] = is_set
    kind: TypeAdapter[Any] | None = None


Behaviour = str | tuple[str, Callable[[Any], bool]]
"""Behaviour here; optionally with the condition on the value under which it differs."""


@dataclass(frozen=True, slots=True)
class Table:
    """Declarations of the fields of one mapping, and of the mappings inside of it.

    Attributes:
        declared: The declaration of the mapping as a whole; None where only its fields have one.
        inner: The fields by name; ``*`` stands for every other name, ``_*`` for every name with an underscore before it.
    """

    declared: Declared | None = None
    inner: Mapping[str, Table] = field(default_factory=dict[str, "Table"])

    def of(self, key: str) -> Table | None:
        """Return the declarations of a field; None for an unknown one."""
        return self.inner.get(key) or (self.inner.get("_*") if key.startswith("_") else None) or self.inner.get("*")

    def __or__(self, other: Table) -> Table:
        """Return the declarations of both tables; for a field in both, those of the other."""
        inner = {key: self.inner.get(key, NOTHING) | each for key, each in other.inner.items()}
        return Table(other.declared or self.declared, {**self.inner, **inner})

    def paths(self, before: str = "") -> Iterator[tuple[str, Declared]]:
        """Yield every declared field with its path."""
        for key, table in self.inner.items():
            if table.declared:
                yield f"{before}{key}", table.declared
            yield from table.paths(f"{before}{key}.")


NOTHING = Table()
"""Table without declarations."""


def table(
    *,
    honoured: str = "",
    no_effect: str = "",
    note: Mapping[str, Behaviour] | None = None,
    lossy: Mapping[str, Behaviour] | None = None,
    refused: Mapping[str, Behaviour] | None = None,
) -> Table:
    """Return the declarations of fields by their paths; items of lists have the path of their list.

    Example:
        >>> table(honoured="url", lossy={"body.data": "is not sent"}).of("body").of("data").declared.behaviour
        'is not sent'
    """
    made = NOTHING
    for use, paths in ((Use.HONOURED, honoured), (Use.NO_EFFECT, no_effect)):
        for path in paths.split():
            made |= _nested(path, Declared(use))
    for use, behaviours in ((Use.NOTE, note), (Use.LOSSY, lossy), (Use.REFUSED, refused)):
        for path, given in (behaviours or {}).items():
            behaviour, when = (given, is_set) if isinstance(given, str) else given
            made |= _nested(path, Declared(use, behaviour, when))
    return made


def typed(kinds: Mapping[str, Any], use: Use = Use.LOSSY) -> Table:
    """Return the declarations of fields by their paths, with their types; `read_typed` reads them.

    Args:
        kinds: The types by path.
        use: The effect of a value of another type.

    Example:
        >>> read_typed({"limit": {"size": "3"}, "wait": "long"}, typed({"limit.size": int, "wait": int}))
        {'limit': {'size': 3}}
    """
    made = NOTHING
    for path, kind in kinds.items():
        adapter: TypeAdapter[Any] = TypeAdapter(kind)
        says = f"must be {name_of_type(kind)}; it is not read, and its default is used"
        made |= _nested(path, Declared(use, says, _misfit(adapter), adapter))
    return made


def name_of_type(kind: Any) -> str:
    """Return the name of the type of a field, which may be optional, in words: ``a whole number``."""
    if get_origin(kind) is Literal:
        return f"one of {', '.join(map(repr, get_args(kind)))}"
    return _NAMES.get(kind) or name_of_type(get_args(kind)[0])


_NAMES: Mapping[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    int | float: "a number",
    StrictFloat: "a number",
    str: "a text",
    dict[Any, Any]: "a mapping",
    list[Any]: "a list",
    list[str]: "a list of texts",
    list[int | float]: "a list of numbers",
    list[bool]: "a list of true and false",
    list[list[str]]: "a list of lists of texts",
    list[dict[Any, Any]]: "a list of mappings",
}
"""Names of the types of fields."""


def _misfit(adapter: TypeAdapter[Any]) -> Callable[[Any], bool]:
    """Return the condition that a value cannot be read as a type."""
    return lambda value: read_as(value, adapter) is REFUSED


def read_as(value: Any, adapter: TypeAdapter[Any]) -> Any:
    """Return a value as a type; `REFUSED` if it cannot be read as such."""
    try:
        return adapter.validate_python(value)
    except (ValidationError, UnicodeEncodeError):  # half of a surrogate pair, which pydantic cannot name
        return REFUSED


REFUSED = object()


def read_typed(fields: Fields, known: Table) -> Fields:
    """Return a mapping with its typed fields as their types; those that cannot be read as such are left out."""
    read = {key: _typed_value(value, known.of(key) or NOTHING) for key, value in fields.items()}
    return {key: value for key, value in read.items() if value is not REFUSED}


def _typed_value(value: Any, known: Table) -> Any:
    if known.declared and known.declared.kind:
        value = read_as(value, known.declared.kind)
    if known.inner and isinstance(value, list):
        return [_typed_value(each, Table(None, known.inner)) for each in cast("list[Any]", value)]
    return read_typed(fields_of(value), known) if known.inner and isinstance(value, dict) else value


def _nested(path: str, declared: Declared) -> Table:
    """Return a table that declares the field at a path with dots."""
    made = Table(declared)
    for key in reversed(path.split(".")):
        made = Table(None, {key: made})
    return made


@dataclass(frozen=True, slots=True)
class Remark:
    """Remark on a field of an imported file that behaves differently here than on its own platform.

    Attributes:
        node: The id of the node; empty for the workflow as a whole.
        title: The title of the node.
        field: The path of the field.
        says: The behaviour here.
        lossy: True if the result of a run may differ.
    """

    node: str
    title: str
    field: str
    says: str
    lossy: bool

    @property
    def issue(self) -> Issue:
        """The remark as an issue of a file, with the code ``lossy`` or ``note``."""
        called = f" of {self.title!r}" if self.title and self.title != self.node else ""
        return Issue("lossy" if self.lossy else "note", f"{self.field}{called}: {self.says}", self.node)


class Owner(NamedTuple):
    """Node or workflow that has the fields.

    Attributes:
        node: The id of the node; empty for the workflow as a whole.
        title: The title of the node.
    """

    node: str = ""
    title: str = ""

    def remark(self, field: str, declared: Declared) -> Remark:
        """Return the remark on a field."""
        return Remark(self.node, self.title, field, declared.behaviour, declared.use is Use.LOSSY)


def remarks_on(
    value: Any, known: Table, owner: Owner, unknown: Use | None = Use.LOSSY, place: str = ""
) -> Iterator[Remark]:
    """Yield the remarks on the fields of a mapping.

    Args:
        value: The mapping.
        known: The declarations of its fields.
        owner: The node or workflow that has the fields.
        unknown: The effect of an unknown field; one that is not set is at most a note. None for no remark.
        place: The path of the mapping, with a dot at the end; empty for the whole file.
    """
    for key, item in fields_of(value).items():
        path, found = f"{place}{key}", known.of(key)
        if found is None and unknown is None:
            continue
        if found is None:
            use = unknown if unknown and is_set(item) else Use.NOTE
            yield owner.remark(
                path, Declared(use, "is an unknown field and is not read; remove it if the workflow does not need it")
            )
            continue
        if found.declared and found.declared.use in (Use.NOTE, Use.LOSSY) and found.declared.when(item):
            yield owner.remark(path, found.declared)
        if found.inner:
            parts = {f"{path}[{n}].": each for n, each in enumerate(list_of(item))} or {f"{path}.": item}
            for inner, part in parts.items():
                yield from remarks_on(part, found, owner, unknown, inner)


def summary(remarks: Sequence[Remark]) -> str:
    """Return the fields of remarks in one line, by node: ``'Ask' (3): memory, retry_config; features.x``."""
    fields: dict[str, list[str]] = {}
    for remark in remarks:
        owner = f"{remark.title!r} ({remark.node}): " if remark.title else f"{remark.node}: "
        fields.setdefault(owner if remark.node else "", []).append(remark.field)
    return "; ".join(f"{owner}{', '.join(dict.fromkeys(names))}" for owner, names in fields.items())


class LossyError(InputError):
    """Imported workflow whose results may differ here from those on its own platform; ``losses`` holds every loss.

    Example:
        >>> LossyError("flow.yml", [Remark("3", "Ask", "memory", "the model sees no earlier turns", lossy=True)]).losses
        (Remark(node='3', title='Ask', field='memory', says='the model sees no earlier turns', lossy=True),)
    """

    def __init__(self, name: str, losses: Sequence[Remark]) -> None:
        self.losses = tuple(losses)
        super().__init__(
            f"{name}: results may differ from those on its own platform: {summary(losses)}. operad check lists the differences; "
            "--lossy (in Python, lossy=True) runs it anyway"
        )
