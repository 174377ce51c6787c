"""JSON serializer for dbos: rows are JSON, and never unpickled."""

from __future__ import annotations

import json
from typing import Any, NoReturn, cast

from dbos import Serializer
from dbos._serialization import DefaultSerializer

from operad.runtime.values.errors import InputError


class JsonSerializer(Serializer):
    """Plain JSON. An error becomes its text: operators' errors are kept as values, so only internal faults pass here."""

    def serialize(self, data: Any) -> str:
        """Return a value as JSON."""
        if isinstance(data, BaseException):
            data = {"$exception": f"{type(data).__name__}: {data}"}
        return json.dumps(data)

    def deserialize(self, serialized_data: str) -> Any:
        """Return the value of a JSON text."""
        value: Any = json.loads(serialized_data)
        if isinstance(value, dict) and "$exception" in value:
            return InputError(str(cast("dict[str, Any]", value)["$exception"]))
        return cast("Any", value)

    def name(self) -> str:
        """Return the name under which rows record this format."""
        return "operad_json"


def refuse_pickles() -> None:
    """Make dbos refuse rows marked as pickles, which it would otherwise load whatever its serializer is.

    Otherwise, write access to the database would allow code execution here. It applies to the whole process.
    """
    replaced = {"deserialize": _refuse, "serialize": JsonSerializer.serialize}
    for name, method in replaced.items():  # an error for such a row takes the place of its content, and ends its work
        setattr(DefaultSerializer, name, method)


def _refuse(*_: object) -> NoReturn:
    raise InputError(
        "a row of the database is marked as a pickle, which operad never writes; it is not read: "
        "find out which other program writes to this database"
    )
