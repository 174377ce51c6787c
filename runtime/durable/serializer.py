"""JSON serializer for dbos: rows are JSON, and never unpickled."""

from __future__ import annotations

import json
from typing import Any, NoReturn, cast

from dbos import Serializer
from dbos._serialization import DefaultSerializer

from operad.runtime.values.errors import InputError


class JsonSerializer(Serializer):
    """Serializer for JSON values; an error is written as its text.

    Errors of operators are part of their outcomes, which are texts, so only internal errors are written as errors.
    """

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
        """Return the name of this format in the rows."""
        return "operad_json"


def refuse_pickles() -> None:
    """Make dbos refuse rows that are marked as pickles, which it would otherwise load with any serializer.

    Loading them would allow everyone who can write to the database to execute code in this process. The change applies
    to the whole process. The work of such a row ends with an error.
    """
    replaced = {"deserialize": _refuse, "serialize": JsonSerializer.serialize}
    for name, method in replaced.items():
        setattr(DefaultSerializer, name, method)


def _refuse(*_: object) -> NoReturn:
    raise InputError(
        "a row of the database is marked as a pickle, which operad never writes; it is not read: "
        "find out which other program writes to this database"
    )
