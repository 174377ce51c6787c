"""Stream for several consumers."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Any


class Tee:
    """Stream for several consumers. Each consumer gets every item and, at the end, the error of the stream.

    Args:
        stream: The stream.
        consumers: Number of consumers.
    """

    def __init__(self, stream: AsyncIterator[Any], consumers: int) -> None:
        self._stream = stream
        self._buffers = [deque[Any]() for _ in range(consumers)]
        self._lock = asyncio.Lock()
        self._ended = False
        self._error: Exception | None = None

    def copies(self) -> list[AsyncIterator[Any]]:
        """Return one copy of the stream per consumer."""
        return [self._copy(buffer) for buffer in self._buffers]

    async def _copy(self, buffer: deque[Any]) -> AsyncIterator[Any]:
        while True:
            if not buffer:
                async with self._lock:
                    if not buffer and not self._ended:
                        await self._advance()
            if buffer:
                yield buffer.popleft()
            elif self._error:
                raise self._error
            else:
                return

    async def _advance(self) -> None:
        """Read the next item of the stream into the buffers of all consumers."""
        try:
            item = await anext(self._stream)
        except StopAsyncIteration:
            self._ended = True
        except Exception as error:  # noqa: BLE001 - raised to every consumer
            self._ended, self._error = True, error
        else:
            for buffer in self._buffers:
                buffer.append(item)
