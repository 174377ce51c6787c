"""What dbos writes into its tables is JSON, and nothing that it reads is ever unpickled."""

from __future__ import annotations

import json
from typing import Any, NoReturn, cast

from dbos import Serializer
from dbos._serialization import DefaultSerializer

from operad.runtime.values.errors import InputError


class JsonSerializer(Serializer):
    """Plain JSON. An error becomes its text: those of operators are kept as values, and only faults of ours come here."""

    def serialize(self, data: Any) -> str:
        """A value as JSON."""
        if isinstance(data, BaseException):
            data = {"$exception": f"{type(data).__name__}: {data}"}
        return json.dumps(data)

    def deserialize(self, serialized_data: str) -> Any:
        """The value of JSON."""
        value: Any = json.loads(serialized_data)
        if isinstance(value, dict) and "$exception" in value:
            return InputError(str(cast("dict[str, Any]", value)["$exception"]))
        return cast("Any", value)

    def name(self) -> str:
        """What rows say that were written so."""
        return "operad_json"


def refuse_pickles() -> None:
    """Have dbos refuse rows that say that they are pickles, which it would read whatever its own serializer is.

    Whoever can write to the database could else run code here. It holds for the whole process.
    """
    replaced = {"deserialize": _refuse, "serialize": JsonSerializer.serialize}
    for name, method in replaced.items():  # an error about such a row is written as if it were one, and ends its work
        setattr(DefaultSerializer, name, method)


def _refuse(*_: object) -> NoReturn:
    raise InputError(
        "a row of the database says that it is a pickle, which operad never writes; it is not read: "
        "see who else writes to this database"
    )
