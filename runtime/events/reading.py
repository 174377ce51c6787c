"""Events from the values that `Event.as_dict` returns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import convert
from msgspec.json import Decoder

from operad.runtime.events.types import Event
from operad.runtime.values.value import Value

_EVENT_TYPES = {kind.__name__: kind for kind in Event.__subclasses__()}
for _kind in _EVENT_TYPES.values():
    # msgspec describes the fields of a type when it first reads one. A second thread that reads one meanwhile uses half a
    # description, which ends the process (segmentation fault). Hence the types are described here, by the only importer.
    Decoder(_kind)


def read_event(values: Mapping[str, Any]) -> Event | None:
    """Return the event for values as returned by `Event.as_dict`; None if the type of the event is unknown.

    Raises:
        ValueError: The values are not those of an event.
    """
    kind = _EVENT_TYPES.get(str(values.get("event")))
    return kind and convert(values, type=kind, dec_hook=_to_value)


def _to_value(kind: type, value: Any) -> Any:
    return kind.model_validate(value) if issubclass(kind, Value) else value
