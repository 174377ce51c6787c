"""The cosine of sentence embeddings, as a similarity of texts."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from operad.runtime.models.minilm import WIDTH, MiniLM


class Embeddings(MiniLM):
    """The cosine of sentence embeddings, as a similarity of texts; what is below 0 is 0.

    Each text is embedded once. Vectors are kept as long as the object is, 1.5 KB a text.

    Raises:
        MissingExtraError: The weights, the tokenizer or what runs them is not installed.
    """

    def __init__(self) -> None:
        super().__init__()
        self._known: dict[str, Any] = {}

    def __call__(self, gold: Sequence[str], predicted: Sequence[str]) -> Any:
        """A row per gold text, a column per predicted one, from 0 to 1.

        In double precision, so that a pair of texts has the same cosine, to twelve digits, in every table.
        """
        rows, columns = self.vectors(gold), self.vectors(predicted)
        return (rows.astype(float) @ columns.astype(float).T).clip(0, 1)

    def vectors(self, texts: Sequence[str]) -> Any:
        """An array with a row per text, a vector of length 1; what is known is not embedded again."""
        fresh = list(dict.fromkeys(text for text in texts if text not in self._known))
        self._known.update(zip(fresh, self.embed(fresh), strict=True))
        numpy: Any = import_module("numpy")
        return numpy.array([self._known[text] for text in texts], dtype="float32").reshape(-1, WIDTH)
