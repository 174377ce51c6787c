"""Similarity of the tasks of two workflows: a table of numbers from 0 to 1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from operad.runtime.values.errors import InputError, MissingExtraError, OperadError, describe, did_you_mean

Similarity = Callable[[Sequence[str], Sequence[str]], Any]
"""Function of the texts of gold and of predicted nodes. It returns numbers from 0 to 1, a row for each gold text and a
column for each predicted text, as nested sequences or an array."""


def exact(gold: Sequence[str], predicted: Sequence[str]) -> Any:
    """Return 1 for equal texts and 0 for others; for node types, which sentence embeddings do not capture.

    Raises:
        MissingExtraError: NumPy is not installed.
    """
    numbers: dict[str, int] = {}
    rows, columns = ([numbers.setdefault(text, len(numbers)) for text in texts] for texts in (gold, predicted))
    return numpy().equal.outer(rows, columns).astype(float)


SIMILARITIES = ("embeddings", "exact")
"""Names of similarities, for the command line and YAML."""


def named_similarity(name: str) -> Similarity:
    """Return the similarity with a name.

    Raises:
        InputError: No similarity has the name; the message suggests similar names.
        MissingExtraError: The extra ``evaluate``, which contains the embeddings, is not installed.
    """
    if name not in SIMILARITIES:
        hint = did_you_mean(name, SIMILARITIES)
        raise InputError(f"there is no similarity {name!r}{hint}; there are: {', '.join(SIMILARITIES)}")
    if name == "exact":
        return exact
    from operad.integrations.worfbench.embeddings import Embeddings

    return Embeddings()


def table_of(similarity: Similarity, gold: Sequence[str], predicted: Sequence[str], threshold: float) -> Any:
    """Return the table of a similarity; values below the threshold, and NaN, become 0, and those above 1 become 1.

    Returns:
        An array of floats: a row for each gold text, a column for each predicted text.

    Raises:
        InputError: The similarity raises, or does not return such a table.
        MissingExtraError: NumPy is not installed.
    """
    np = numpy()
    shape = (len(gold), len(predicted))
    if 0 in shape:
        return np.zeros(shape)
    name = getattr(similarity, "__name__", type(similarity).__name__)
    try:
        table = np.array(similarity(gold, predicted), dtype=float)
    except OperadError:
        raise
    except Exception as error:
        raise InputError(f"the similarity {name} gives no table of numbers: {describe(error)}") from error
    if table.shape != shape:
        raise InputError(
            f"the similarity {name} gives a table of shape {table.shape}, not {shape}: "
            "a row per gold text, a column per predicted one"
        )
    table[~(table >= threshold)] = 0  # the negation includes NaN
    return np.minimum(table, 1, out=table)


def numpy() -> Any:
    """Import NumPy.

    Raises:
        MissingExtraError: NumPy is not installed.
    """
    try:
        return import_module("numpy")
    except ImportError as error:
        raise MissingExtraError(
            f"scores of a workflow against a gold one need numpy ({error}): pip install 'operad[evaluate]'"
        ) from error
