"""Fields of imported files: a declaration of each field's use, and the remarks on one file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

from operad.flows.formats.shapes import fields_of, list_of
from operad.runtime.values.errors import InputError, Issue


class Use(Enum):
    """Use of a field here."""

    HONOURED = "honoured"
    NO_EFFECT = "no effect"
    NOTE = "note"
    LOSSY = "lossy"
    REFUSED = "refused"


def is_set(value: Any) -> bool:
    """Return whether a value says anything: not null, false, empty or zero.

    Example:
        >>> is_set({"enabled": False}), is_set([])
        (True, False)
    """
    return value not in (None, "", False, 0) and value != [] and value != {}


def is_enabled(value: Any) -> bool:
    """Return whether a feature with a key `enabled` is on."""
    return fields_of(value).get("enabled") is True


def unless(*values: Any) -> Callable[[Any], bool]:
    """Return whether a value is another one than these, null and the empty text."""
    others = (None, "", *values)

    def is_other(value: Any) -> bool:
        return value not in others

    return is_other


@dataclass(frozen=True, slots=True)
class Declared:
    """Declaration of a field.

    Attributes:
        use: What becomes of the field.
        says: For a note, a loss and a refusal: what happens here instead.
        when: The values that this is said of; others have no effect.
    """

    use: Use
    says: str = ""
    when: Callable[[Any], bool] = is_set


Fate = str | tuple[str, Callable[[Any], bool]]
"""Behaviour here, and the values of the field for which it differs."""


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
        """Return the declarations of both."""
        inner = {key: self.inner.get(key, NOTHING) | each for key, each in other.inner.items()}
        return Table(other.declared or self.declared, {**self.inner, **inner})

    def paths(self, before: str = "") -> Iterator[tuple[str, Declared]]:
        """Yield every declared field with its path."""
        for key, table in self.inner.items():
            if table.declared:
                yield f"{before}{key}", table.declared
            yield from table.paths(f"{before}{key}.")


NOTHING = Table()


def table(
    *,
    honoured: str = "",
    no_effect: str = "",
    note: Mapping[str, Fate] | None = None,
    lossy: Mapping[str, Fate] | None = None,
    refused: Mapping[str, Fate] | None = None,
) -> Table:
    """Return the declarations of fields by their paths; items of lists have the path of their list.

    Example:
        >>> table(honoured="url", lossy={"body.data": "is not sent"}).of("body").of("data").declared.says
        'is not sent'
    """
    made = NOTHING
    for use, paths in ((Use.HONOURED, honoured), (Use.NO_EFFECT, no_effect)):
        for path in paths.split():
            made |= _at(path, Declared(use))
    for use, fates in ((Use.NOTE, note), (Use.LOSSY, lossy), (Use.REFUSED, refused)):
        for path, fate in (fates or {}).items():
            says, when = (fate, is_set) if isinstance(fate, str) else fate
            made |= _at(path, Declared(use, says, when))
    return made


def _at(path: str, declared: Declared) -> Table:
    made = Table(declared)
    for key in reversed(path.split(".")):
        made = Table(None, {key: made})
    return made


@dataclass(frozen=True, slots=True)
class Remark:
    """Field of an imported file that does something else here than where the file comes from.

    Attributes:
        node: The id of the node; empty for the workflow as a whole.
        title: What people call the node.
        field: The path of the field.
        says: What happens here instead.
        lossy: Whether the result of a run may be another one.
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
    """Owner of fields.

    Attributes:
        node: The id of the node; empty for the workflow as a whole.
        title: What people call it.
    """

    node: str = ""
    title: str = ""

    def remark(self, field: str, declared: Declared) -> Remark:
        """Return the remark on a field."""
        return Remark(self.node, self.title, field, declared.says, declared.use is Use.LOSSY)


def remarks_on(value: Any, known: Table, owner: Owner, unknown: Use = Use.LOSSY, place: str = "") -> Iterator[Remark]:
    """Yield the remarks on the fields of a mapping.

    Args:
        value: The mapping.
        known: The declarations of its fields.
        owner: Whose fields they are.
        unknown: What an unknown field is; one that is not set is never more than a note.
        place: The path of the mapping.
    """
    for key, item in fields_of(value).items():
        at, found = f"{place}{key}", known.of(key)
        if found is None:
            use = unknown if is_set(item) else Use.NOTE
            yield owner.remark(
                at, Declared(use, "is an unknown field and is not read; remove it if the workflow does not need it")
            )
            continue
        if found.declared and found.declared.use in (Use.NOTE, Use.LOSSY) and found.declared.when(item):
            yield owner.remark(at, found.declared)
        if found.inner:
            parts = {f"{at}[{n}].": each for n, each in enumerate(list_of(item))} or {f"{at}.": item}
            for inner, part in parts.items():
                yield from remarks_on(part, found, owner, unknown, inner)


def summary(remarks: Sequence[Remark]) -> str:
    """Return the fields of remarks in one line, by node: ``'Ask' (3): memory, retry_config; features.x``."""
    fields: dict[str, list[str]] = {}
    for each in remarks:
        whose = f"{each.title!r} ({each.node}): " if each.node and each.title else f"{each.node}: " if each.node else ""
        fields.setdefault(whose, []).append(each.field)
    return "; ".join(f"{whose}{', '.join(dict.fromkeys(each))}" for whose, each in fields.items())


class LossyError(InputError):
    """An imported workflow whose results may be others here than where it comes from; ``losses`` holds every loss.

    Example:
        >>> LossyError("flow.yml", [Remark("3", "Ask", "memory", "the model sees no earlier turns", lossy=True)]).losses
        (Remark(node='3', title='Ask', field='memory', says='the model sees no earlier turns', lossy=True),)
    """

    def __init__(self, name: str, losses: Sequence[Remark]) -> None:
        self.losses = tuple(losses)
        super().__init__(
            f"{name}: runs differently here than where it comes from: {summary(losses)}. operad check says how; "
            "--lossy (in Python, lossy=True) runs it all the same"
        )
