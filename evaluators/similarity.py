"""Similarity of the tasks of two workflows: a table of numbers from 0 to 1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from operad.runtime.values.errors import InputError, MissingExtraError, OperadError, describe, did_you_mean

Similarity = Callable[[Sequence[str], Sequence[str]], Any]
"""Texts of gold and of predicted nodes → a row per gold text with a number per predicted one, from 0 to 1: nested
sequences, or an array."""


def exact(gold: Sequence[str], predicted: Sequence[str]) -> Any:
    """1 where two texts are equal, else 0: for types of nodes, of which sentence embeddings know nothing.

    Raises:
        MissingExtraError: NumPy is not installed.
    """
    numbers: dict[str, int] = {}
    rows, columns = ([numbers.setdefault(text, len(numbers)) for text in texts] for texts in (gold, predicted))
    return numpy().equal.outer(rows, columns).astype(float)


SIMILARITIES = ("embeddings", "exact")
"""The names of similarities, for the command line and YAML."""


def named_similarity(name: str) -> Similarity:
    """The similarity of a name.

    Raises:
        InputError: There is none; near names are told.
        MissingExtraError: The extra ``evaluate``, which holds the embeddings, is not installed.
    """
    if name not in SIMILARITIES:
        hint = did_you_mean(name, SIMILARITIES)
        raise InputError(f"there is no similarity {name!r}{hint}; there are: {', '.join(SIMILARITIES)}")
    if name == "exact":
        return exact
    from operad.evaluators.embeddings import Embeddings

    return Embeddings()


def table_of(similarity: Similarity, gold: Sequence[str], predicted: Sequence[str], threshold: float) -> Any:
    """Return a table of similarities between 0 and 1; values below the threshold, and NaN, become 0.

    Returns:
        An array of floats: a row per gold text, a column per predicted one.

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
    table[~(table >= threshold)] = 0  # NaN, too, is not at least anything
    return np.minimum(table, 1, out=table)


def numpy() -> Any:
    """NumPy.

    Raises:
        MissingExtraError: It is not installed.
    """
    try:
        return import_module("numpy")
    except ImportError as error:
        raise MissingExtraError(
            f"scores of a workflow against a gold one need numpy ({error}): pip install 'operad[evaluate]'"
        ) from error
