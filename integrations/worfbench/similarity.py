"""Similarity of the tasks of two workflows: a table of numbers from 0 to 1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from operad.runtime.models.minilm import WIDTH, MiniLM
from operad.runtime.values.errors import InputError, MissingExtraError, OperadError, describe, did_you_mean
from operad.runtime.values.pip import pip_install

# The cosine of sentence embeddings, as a similarity of texts.


class Embeddings(MiniLM):
    """The cosine of sentence embeddings, as a similarity of texts; negative values become 0.

    Each text is embedded once; the object keeps its vector, which takes 1.5 KB.

    Raises:
        MissingExtraError: The weights, the tokenizer or the runtime is not installed.
    """

    def __init__(self) -> None:
        super().__init__()
        self._known: dict[str, Any] = {}

    def __call__(self, gold: Sequence[str], predicted: Sequence[str]) -> Any:
        """Return similarities from 0 to 1: a row for each gold text, a column for each predicted text.

        Double precision gives a pair of texts the same cosine, to twelve digits, in every table.
        """
        rows, columns = self.vectors(gold), self.vectors(predicted)
        return (rows.astype(float) @ columns.astype(float).T).clip(0, 1)

    def vectors(self, texts: Sequence[str]) -> Any:
        """Return an array with a vector of length 1 for each text; known texts are not embedded again."""
        unknown = list(dict.fromkeys(text for text in texts if text not in self._known))
        self._known.update(zip(unknown, self.embed(unknown), strict=True))
        numpy: Any = import_module("numpy")
        return numpy.array([self._known[text] for text in texts], dtype="float32").reshape(-1, WIDTH)


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
            f"scores of a workflow against a gold one need numpy ({error}): {pip_install('evaluate')}"
        ) from error
