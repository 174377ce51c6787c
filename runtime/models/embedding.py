"""Embeddings of a model at an endpoint, by OpenAI's protocol."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from operad.runtime.models.endpoint import Endpoint
from operad.runtime.values.sync import run_sync


class EmbeddingModel(Endpoint):
    """Embedding model at an endpoint.

        library = Documents("docs", embeddings=EmbeddingModel(name="text-embedding-3-small", api_key=key))

    Attributes:
        name: Name of the model at the endpoint, or with the prefix of a vendor: ``mistral:mistral-embed``.
        base_url: URL of the endpoint, without ``/embeddings``; None for the vendor's, or for that in the environment.
        api_key: API key; None for that of the environment, at the address that it is for. Never shown.
        timeout: Maximum time without data from the endpoint, in seconds.
        total_timeout: Maximum duration of a call in seconds, from the first request to the end of the answer, including
            retries and the waits between them.
        max_retries: Maximum number of retries of a call after a temporary failure (429, 5xx, no connection); each retry
            emits a `ModelRetried` event.
    """

    @property
    def _protocol(self) -> str:
        return "embeddings"

    @property
    def identity(self) -> str:
        """Name of the model with its endpoint, because another endpoint may have another model of the same name."""
        return self.describe()

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a vector for each text.

        Raises:
            ModelError: The endpoint cannot be reached, refuses the call, or breaks the protocol.
            RunningLoopError: The caller is inside a running event loop.
        """
        return run_sync(partial(self.aembed, texts), "aembed")

    async def aembed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a vector for each text, like `embed`, for use in an event loop."""
        return await self._within_total_timeout(self.settled()._embed(list(texts)))

    async def _embed(self, texts: list[str]) -> list[list[float]]:
        with self.checked_protocol():
            async with self._client() as client:
                answer: Any = await self._send(
                    lambda: client.embeddings.create(model=self.name, input=texts, encoding_format="float"),
                    client.api_key,
                )
            by_index = {int(each.index): [float(number) for number in each.embedding] for each in answer.data}
            if sorted(by_index) != list(range(len(texts))):
                raise ValueError("the number of vectors differs from that of texts")
            return [by_index[number] for number in range(len(texts))]
