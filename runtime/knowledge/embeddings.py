"""Embeddings: texts as vectors."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Protocol

from operad.runtime.values.errors import InputError, MissingExtraError
from operad.runtime.values.pip import pip_install

MAX_WIDTH = 16_384
"""Maximum number of dimensions of a vector."""


class Embeddings(Protocol):
    """Protocol of embedding models: texts with similar meanings get vectors at a small angle."""

    @property
    def identity(self) -> str:
        """Name of the model on one line; only vectors of the same name are compared."""
        ...

    def embed(self, texts: Sequence[str]) -> Any:
        """Return a vector for each text, as the rows of an array or as sequences of numbers."""
        ...


def need_numpy() -> Any:
    """Return NumPy.

    Raises:
        MissingExtraError: NumPy is not installed.
    """
    try:
        return import_module("numpy")
    except ImportError as error:
        raise MissingExtraError(f"embeddings need numpy ({error}): {pip_install('embeddings')}") from error


def vectors_of(texts: Sequence[str], embeddings: Embeddings) -> Any:
    """Return an array with a unit vector for each text, as a row.

    Raises:
        InputError: The model does not return a vector of finite numbers for each text.
        ModelError: The call of the model fails.
    """
    np = need_numpy()
    returned = embeddings.embed(texts)
    try:
        vectors = np.asarray(returned, dtype="float32")
    except (TypeError, ValueError) as error:
        raise InputError(f"{embeddings.identity}: gives no vectors of one width: {error}") from error
    if vectors.ndim != 2 or len(vectors) != len(texts) or not 0 < vectors.shape[1] <= MAX_WIDTH:
        raise InputError(
            f"{embeddings.identity}: gives numbers of shape {vectors.shape} for {len(texts)} texts; expected a vector "
            f"of at most {MAX_WIDTH:,} numbers for each"
        )
    if not np.isfinite(vectors).all():
        raise InputError(f"{embeddings.identity}: gives a vector with a number that is not finite")
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1)
