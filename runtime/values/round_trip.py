"""Values of functions as messages, from which they can be read back as they were."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any, cast

from pydantic import ValidationError
from pydantic_core import to_jsonable_python

from operad.runtime.values.arguments import short_repr
from operad.runtime.values.base_errors import InputError
from operad.runtime.values.json_like import Loss, Path, as_json, first_loss, is_equal, loss_in_reading, path_text
from operad.runtime.values.message import WorkflowMessage
from operad.runtime.values.output import Output, Reader, adapter, name, outputs_of

ANY_VALUE: Output[Any] = Output(None, "")


def message_of(value: Any, output: Output[Any] = ANY_VALUE, who: str = "") -> WorkflowMessage:
    """Return a value as a message: text as it is, other values as the outputs of `outputs_of`.

        print(message_of([1, 2]).value, message_of({"output": 3}).value)  # [1, 2] {'output': 3}

    Args:
        output: The type that a function declares to return.
        who: The operator that returned the value, for errors.

    Raises:
        InputError: The value has no JSON form, does not fit the type, or is another one when it is read back; see
            `loss_of`.
    """
    returned = f"{who} returned " if who else ""
    try:
        plain = value if isinstance(value, str) else to_jsonable_python(value, by_alias=True, fallback=_of_numpy)
        message = _of_json(plain)
    except (ValueError, RecursionError) as error:  # circular, too deep, or a number of too many digits
        wanted = "text, a pydantic model, JSON values, Take(port, value) or a WorkflowMessage"
        raise InputError(f"{returned}{short_repr(value)}, which has no JSON form: {error}; return {wanted}") from error
    misfit: ValueError | None = None
    loss: Loss | None = None
    try:
        loss = loss_of(value, plain, output)
    except ValueError as error:
        misfit = error
    if (loss or misfit) and output.is_declared:
        with suppress(ValueError):  # the serializers of the annotated type may write what its validators read
            written = output.write(value)
            if loss_of(value, written, output) is None:
                return _of_json(written)
    if misfit is not None:
        raise InputError(
            f"{who} is annotated to return {name(output.type)}, and returned {short_repr(value)}: {misfit}"
        ) from misfit
    if loss is not None:
        raise InputError(f"{returned}{short_repr(value)}, which would not arrive as it is: {loss}")
    return message


def _of_numpy(value: Any) -> Any:
    """Return a number of numpy as Python's own, which equals it.

    Raises:
        ValueError: It is something else.
    """
    if getattr(value, "ndim", None) == 0 and is_equal(value, number := value.item()):
        return number
    advice = "; value.tolist() has one" if hasattr(value, "tolist") else ""
    raise ValueError(f"values of type {type(value).__name__} have none{advice}")


def _of_json(plain: Any) -> WorkflowMessage:
    if isinstance(plain, str):
        return WorkflowMessage.of_text(plain, "", "")
    outputs, answer = outputs_of(plain)
    text = "" if plain is None else json.dumps(plain, ensure_ascii=False)
    return WorkflowMessage.of_text(text, "", "", outputs=outputs, answer=answer)


def loss_of(value: Any, plain: Any, output: Output[Any] = ANY_VALUE) -> Loss | None:
    """Return the first part of a value that its JSON form does not hold; None if the form is exact.

    The form is read back as the declared type, and must then be equal to the value. Without a declared type, each
    object inside is read back as its own class, so that only secrets, excluded fields and the like are losses: a reader
    that names the class gets the value.

    Args:
        value: The value, as a function returned it.
        output: The declared type.

    Raises:
        ValueError: The form does not fit the declared type.
    """
    if not output.is_declared:
        return None if is_equal(value, plain) else _loss_by_class(value, plain, ())
    is_json = is_equal(value, plain)
    if is_json and output.is_instance(value):
        return None
    try:
        back = output.read_value(plain)
        if is_json and not output.reads_json:
            return None  # of the alternatives of a union, pydantic prefers one that needs no conversion
        loss = first_loss(value, back)
        # JSON values that are not instances of the type, such as a tuple for a list, are converted as the type says
        return None if loss and not output.accepts(value) and is_equal(as_json(value), plain) else loss
    except ValueError as error:
        invalid = error.__cause__
        if isinstance(invalid, ValidationError) and (loss := loss_in_reading(value, invalid)) is not None:
            return loss
        raise


def _loss_by_class(value: Any, plain: Any, path: Path) -> Loss | None:
    """Return the first loss in a value without a declared type, given its JSON form."""
    kind = cast("type[object]", type(value))
    if is_equal(value, plain):
        return None
    if isinstance(value, Mapping) and isinstance(plain, Mapping):
        given, written = cast("Mapping[Any, Any]", value), cast("Mapping[str, Any]", plain)
        if len(given) != len(written):
            return Loss(path_text(path), "two of its keys have the same text in JSON; use other keys")
        pairs: Iterable[Any] = ((key, given[key], part) for key, part in zip(given, written.values(), strict=True))
    elif isinstance(value, list | tuple | set | frozenset) and isinstance(plain, list):
        items = zip(cast("Iterable[Any]", value), cast("list[Any]", plain), strict=True)
        pairs = ((place, *pair) for place, pair in enumerate(items))
    else:
        reading = _reader_of(kind)
        if reading is None:
            return None
        try:
            return first_loss(value, reading.read(plain), path)
        except ValidationError as error:
            return loss_in_reading(value, error, path) or Loss(path_text(path), f"it cannot be read back: {error}")
        except Exception as error:  # noqa: BLE001 - raised by a validator of the user's class
            return Loss(path_text(path), f"it cannot be read back: {type(error).__name__}: {error}")
    return next(filter(None, (_loss_by_class(each, part, (*path, key)) for key, each, part in pairs)), None)


@lru_cache(maxsize=256)
def _reader_of(kind: type) -> Reader | None:
    try:
        return Reader(adapter(kind))
    except InputError:  # pydantic writes some types that it cannot read
        return None
