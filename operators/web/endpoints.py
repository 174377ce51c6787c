"""Endpoints for images and speech, by OpenAI's protocols."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import TYPE_CHECKING, Any, Literal, cast
from urllib.parse import urljoin, urlsplit

from pydantic import Field

from operad.operators.web.fetch import Guard, fetch
from operad.runtime.models.endpoint import Endpoint
from operad.runtime.values.errors import FetchError, ModelError
from operad.runtime.values.file import image_type

if TYPE_CHECKING:
    from openai import AsyncOpenAI

MAX_ANSWER_BYTES = 64 * 2**20
"""Maximum size of an answer, in bytes."""

_AUDIO_TYPES = {"mp3": "audio/mpeg", "opus": "audio/ogg", "pcm": "audio/pcm"}
"""Media types of formats that do not have the form ``audio/FORMAT``."""


class _BytesEndpoint(Endpoint):
    """Endpoint whose answers are bytes; each request uses a connection of its own."""

    timeout: float = Field(default=300.0, gt=0)

    async def _request_bytes(
        self, request: Callable[[AsyncOpenAI], AbstractAsyncContextManager[Any]]
    ) -> tuple[bytes, str]:
        """Return the body of an answer and its media type."""
        return await self._within_total_timeout(self._request_once(request))

    async def _request_once(
        self, request: Callable[[AsyncOpenAI], AbstractAsyncContextManager[Any]]
    ) -> tuple[bytes, str]:
        body = bytearray()
        async with self._client() as client, AsyncExitStack() as stack:
            response = await self._send(lambda: stack.enter_async_context(request(client)), client.api_key)
            try:
                async for data in response.iter_bytes():
                    body += data
                    if len(body) > MAX_ANSWER_BYTES:
                        break
            except Exception as error:  # openai also raises errors of its HTTP library
                raise self.broken_off_error(error, client.api_key) from error
        if len(body) > MAX_ANSWER_BYTES:
            raise ModelError(
                f"the answer of {self.describe()} is larger than the maximum of {MAX_ANSWER_BYTES:,} bytes"
            )
        return bytes(body), str(response.headers.get("content-type", "")).partition(";")[0].strip().lower()


class ImageModel(_BytesEndpoint):
    """Model at an endpoint that generates images.

    Attributes:
        name: Name of the model at the endpoint, or with the prefix of a vendor.
        base_url: URL of the endpoint, without ``/images/generations``; None for the vendor's, or for that in the environment.
        api_key: API key; None for that of the environment, at the address that it is for. Never shown.
        timeout: Maximum time without data from the endpoint, in seconds.
        total_timeout: Maximum duration of a call in seconds, from the first request to the end of the answer, including
            retries and the waits between them.
        max_retries: Maximum number of retries of a call after a temporary failure (429, 5xx, no connection); each retry
            emits a `ModelRetried` event.
        size: Width and height in pixels, such as ``1024x1024``; None for the endpoint's default.
    """

    size: str | None = None

    @property
    def _protocol(self) -> str:
        return "images"

    async def generate(self, prompt: str, *, count: int = 1) -> list[tuple[bytes, str]]:
        """Return generated images, each with its media type.

        If the endpoint returns the URL of an image, it is fetched from the endpoint's own host or a public address.

        Args:
            prompt: Description of the image.
            count: Maximum number of images.

        Raises:
            ModelError: The endpoint cannot be reached, refuses the call, or breaks off.
        """
        return await self.settled()._generate(prompt, count)

    async def _generate(self, prompt: str, count: int) -> list[tuple[bytes, str]]:
        request: dict[str, Any] = {"model": self.name, "prompt": prompt, "n": count}
        if self.size:
            request["size"] = self.size
        body, _ = await self._request_bytes(
            lambda client: cast("Any", client.images.with_streaming_response).generate(**request)
        )
        with self.checked_protocol():
            images = list(json.loads(body)["data"])[:count]
        if not images:
            raise self.protocol_error("its answer holds no image")
        return [await self._image(answer) for answer in images]

    async def _image(self, answer: Any) -> tuple[bytes, str]:
        """Return an image from an item of the answer: its data, or the content of its URL."""
        with self.checked_protocol():
            encoded, url = answer.get("b64_json"), answer.get("url")
            data = base64.b64decode(encoded or "", validate=True)
        if data:
            return data, image_type(data) or "application/octet-stream"
        if not isinstance(url, str):
            raise self.protocol_error("its answer holds no image")
        guard = Guard((urlsplit(self.address).netloc.rpartition("@")[2],), self.timeout, MAX_ANSWER_BYTES)
        try:
            response = await fetch(urljoin(self.address, url), guard=guard)
        except FetchError as error:
            raise ModelError(
                f"{self.describe()} drew an image that cannot be fetched: {error}", transient=error.transient
            ) from error
        mime_type = image_type(response.body) or response.content_type
        if response.status >= 400 or not mime_type.startswith("image/"):
            raise ModelError(
                f"{self.describe()} gave the address of an image that is not there "
                f"(status {response.status}, {mime_type or 'of no type'})",
                transient=response.status >= 500,
            )
        return response.body, mime_type


class SpeechModel(_BytesEndpoint):
    """Model at an endpoint that generates speech.

    Attributes:
        name: Name of the model at the endpoint, or with the prefix of a vendor.
        base_url: URL of the endpoint, without ``/audio/speech``; None for the vendor's, or for that in the environment.
        api_key: API key; None for that of the environment, at the address that it is for. Never shown.
        timeout: Maximum time without data from the endpoint, in seconds.
        total_timeout: Maximum duration of a call in seconds, from the first request to the end of the answer, including
            retries and the waits between them.
        max_retries: Maximum number of retries of a call after a temporary failure (429, 5xx, no connection); each retry
            emits a `ModelRetried` event.
        format: Format of the audio.
    """

    voice: str = "alloy"
    format: Literal["mp3", "opus", "aac", "flac", "wav", "pcm"] = "mp3"

    @property
    def _protocol(self) -> str:
        return "speech"

    async def speak(self, text: str) -> tuple[bytes, str]:
        """Return a text as spoken audio, and its media type.

        Raises:
            ModelError: The endpoint cannot be reached, refuses the call, or breaks off.
        """
        return await self.settled()._speak(text)

    async def _speak(self, text: str) -> tuple[bytes, str]:
        request = {"model": self.name, "input": text, "voice": self.voice, "response_format": self.format}
        sound, mime_type = await self._request_bytes(
            lambda client: cast("Any", client.audio.speech.with_streaming_response).create(**request)
        )
        if not sound or mime_type.startswith("text/") or mime_type == "application/json":
            raise self.protocol_error(f"its answer is not a sound ({len(sound)} bytes, {mime_type or 'of no type'})")
        if not mime_type.startswith("audio/"):
            mime_type = _AUDIO_TYPES.get(self.format, f"audio/{self.format}")
        return sound, mime_type
