"""The cosine of sentence embeddings, as a similarity of texts."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from operad.runtime.models.minilm import WIDTH, MiniLM


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
