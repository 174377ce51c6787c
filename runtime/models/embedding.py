"""Embeddings of a model at an endpoint, by OpenAI's protocol."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

from operad.runtime.models.endpoint import Endpoint
from operad.runtime.values.api_key import key_text
from operad.runtime.values.sync import run_sync


class EmbeddingModel(Endpoint):
    """A model at an endpoint that embeds texts.

        library = Documents("docs", embeddings=EmbeddingModel(name="text-embedding-3-small", api_key=key))

    Attributes:
        name: The model's name at the endpoint.
        base_url: Where the endpoint is; ``/embeddings`` follows.
        api_key: The key, or None for endpoints that want none. Never shown.
        timeout: Seconds that the endpoint may be silent.
        total_timeout: Seconds that a call may take from its first request to the end of the answer, retries and
            the waits between them included.
        max_retries: Number of times that a call that was refused for the time being (429, 5xx, no connection)
            is tried again; each retry is a `ModelRetried` event.
    """

    _protocol: ClassVar[str] = "embeddings"

    @property
    def identity(self) -> str:
        """The model and its endpoint: the same name may stand for another model elsewhere."""
        return self.describe()

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a vector for each text.

        Raises:
            ModelError: The endpoint cannot be reached, refuses, or answers something else.
            RunningLoopError: The caller is inside a running event loop.
        """
        return run_sync(partial(self.aembed, texts), "aembed")

    async def aembed(self, texts: Sequence[str]) -> list[list[float]]:
        """As `embed`, for code with an event loop."""
        return await self._in_time(self._embed(list(texts)))

    async def _embed(self, texts: list[str]) -> list[list[float]]:
        key = key_text(self.api_key)
        with self._reading():
            async with self._client(self.base_url, key) as client:
                answer: Any = await self._asked(
                    lambda: client.embeddings.create(model=self.name, input=texts, encoding_format="float"),
                    client.api_key,
                )
            by_index = {int(each.index): [float(number) for number in each.embedding] for each in answer.data}
            if sorted(by_index) != list(range(len(texts))):
                raise ValueError("a vector for each text is wanted")
            return [by_index[number] for number in range(len(texts))]
