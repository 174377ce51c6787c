"""Clients of vendors with protocols of their own: Anthropic, Google, Amazon Bedrock and Mistral."""

from __future__ import annotations

import hashlib
import json
import os
import re
import warnings
from collections.abc import AsyncGenerator, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cache, partial
from inspect import signature
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from operad.runtime.models.addresses import MIN_KEY, described_page, one_line, split_login, without_key, without_login
from operad.runtime.models.chat_completions import is_object
from operad.runtime.models.endpoint import (
    Endpoint,
    beginning,
    http_options,
    limit_size,
    refuse_other_origin,
    replace_headers,
)
from operad.runtime.models.messages import (
    Blob,
    Message,
    Opaque,
    Origin,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    own_data,
)
from operad.runtime.models.settings import NO_SETTINGS, ModelSettings
from operad.runtime.models.thinking_tags import ThinkingTags
from operad.runtime.models.turn import Completion, Delta, FinishReason, ToolChoice
from operad.runtime.tools.tool import Tool
from operad.runtime.values.errors import MissingExtraError, ModelError, OperadError, PromptTooLongError, RequestError
from operad.runtime.values.message import Usage
from operad.runtime.values.pip import pip_install
from operad.runtime.values.schema import AnswerSchema
from operad.runtime.values.text import whole

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from pydantic_ai.messages import ModelMessage, ModelRequestPart, ModelResponse, ModelResponsePart
    from pydantic_ai.models import Model as VendorModel
    from pydantic_ai.models import ModelRequestParameters, StreamedResponse


# Messages in the form of pydantic-ai, for the clients of vendors, and back.

CODEC = "pydantic-ai/1"
"""Codec of the origins of vendors' turns: their data are the fields of pydantic-ai's parts, in JSON."""

_OF_TURN = ("provider_name", "canonical_system", "provider_response_id", "provider_details")
_REFERENCE = re.compile(r'"#/\$defs/([^"]+)"')
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""Ids of tool calls that all vendors take."""


def history_of(messages: Sequence[Message], system: str, id_length: int | None) -> list[ModelMessage]:
    """Return a conversation in pydantic-ai's form.

    Reasoning and vendors' own parts of other systems are left out, because their text would be sent as an answer.

    Args:
        system: The system that it is sent to.
        id_length: Number of characters of the ids of tool calls; None if it may vary.
    """
    from pydantic_ai.messages import ModelRequest, ModelResponse, UserPromptPart

    def fitted(call_id: str) -> str:
        if _ID.fullmatch(call_id) and (id_length is None or (len(call_id) == id_length and call_id.isalnum())):
            return call_id
        return hashlib.sha256(call_id.encode("utf-8", "replace")).hexdigest()[: id_length or 32]

    history: list[ModelMessage] = []
    order: list[str] = []
    for message in messages:
        if message.role == "assistant":
            order = [call.id for call in message.tool_calls]
            if parts := [made for part in message.parts if (made := _answered(part, system, fitted)) is not None]:
                model = message.origin.model if message.origin else None
                history.append(ModelResponse(parts=parts, model_name=model, **(own_data(message, CODEC, system) or {})))
            continue
        # Vendors require the results of a turn first, and some in the order of the calls.
        results = sorted(message.tool_results, key=lambda result: order.index(result.id) if result.id in order else 0)
        asked: list[ModelRequestPart] = [_returned(result, fitted(result.id)) for result in results]
        rest = [
            part for part in message.parts if isinstance(part, Blob) or (isinstance(part, Text) and part.text.strip())
        ]
        if message.role == "system":
            asked += _system_parts(rest)
        elif rest:
            asked.append(UserPromptPart(content=[_content(part) for part in rest]))
        if history and isinstance(last := history[-1], ModelRequest):  # vendors require that the roles alternate
            last.parts = [*last.parts, *asked]
        elif asked:
            history.append(ModelRequest(parts=asked))
    return history


def completed_message(response: ModelResponse, system: str) -> Message:
    """Return the turn in a response of a model, with all that the system needs back."""
    model = response.model_name or ""
    name = response.provider_name

    def origin(data: Mapping[str, Any]) -> Origin | None:
        kept = {key: value for key, value in data.items() if value is not None}
        return (
            Origin(codec=CODEC, system=system, model=model, data=whole(kept))
            if kept.keys() - {"provider_name"}
            else None
        )

    parts: list[Part] = []
    for part in cast("Sequence[Any]", response.parts):
        data: dict[str, Any] = _adapter().dump_python(part, mode="json", exclude_none=True)
        kind = data.pop("part_kind")
        data.setdefault("provider_name", name)
        match kind:
            case "text":
                parts.append(Text(text=whole(data.pop("content")), origin=origin(data)))
            case "thinking":
                text = whole(data.pop("content"))
                parts.append(Thinking(text=text, origin=origin({"part_kind": kind, **data})))
            case "tool-call":
                data.pop("args", None)
                call_id, tool = data.pop("tool_call_id"), data.pop("tool_name")
                arguments = whole(part.args if isinstance(part.args, str) else part.args_as_json_str())
                parts.append(ToolCall(id=call_id, name=whole(tool), arguments=arguments, origin=origin(data)))
            case "file":
                del data["content"]
                content = part.content
                parts.append(Blob(data=content.data, media_type=content.media_type, origin=origin(data)))
            case _:
                parts.append(Opaque(shown=kind, origin=origin({**data, "part_kind": kind})))
    turn = _turns().dump_python([response], mode="json")[0]
    return Message(role="assistant", parts=tuple(parts), origin=origin({key: turn[key] for key in _OF_TURN}))


def without_tags(message: Message, tags: ThinkingTags) -> Message:
    """Return a turn with the reasoning between tags in its text as a part of its own."""
    thinking, answer = tags.parts()
    if not tags.opened:
        return message
    texts = [part for part in message.parts if isinstance(part, Text)]
    rest = [part for part in message.parts if not isinstance(part, Text)]
    said: list[Part] = [Thinking(text=thinking), *([texts[-1].model_copy(update={"text": answer})] if answer else [])]
    at = next((number for number, part in enumerate(rest) if not isinstance(part, Thinking)), len(rest))
    return message.with_parts([*rest[:at], *said, *rest[at:]])


def unreadable_types(messages: Sequence[Message], profile: Mapping[str, Any]) -> list[str]:
    """Return the media types of files in a conversation that a model with a profile cannot read."""
    found = dict[str, None]()
    for message in messages:
        if message.role != "assistant":
            inside = [part for result in message.tool_results for part in result.content]
            for part in [*message.parts, *inside]:
                if isinstance(part, Blob) and not _can_read(part.media_type, profile):
                    found[part.media_type] = None
    return list(found)


def describe_form(history: list[ModelMessage], output: AnswerSchema) -> None:
    """Describe the form of the answer in the last request of a conversation."""
    from pydantic_ai.messages import ModelRequest, UserPromptPart

    schema = json.dumps(output.schema, ensure_ascii=False)
    part = UserPromptPart(
        content=f"Answer with a JSON object alone, without a code fence. It must fit this JSON Schema:\n{schema}"
    )
    if history and isinstance(last := history[-1], ModelRequest):
        last.parts = [*last.parts, part]
    else:
        history.append(ModelRequest(parts=[part]))


def is_recursive(output: AnswerSchema) -> bool:
    """Return True if a definition of a form refers to itself, also by others."""
    schema = output.schema or {}
    definitions: Mapping[str, Any] = schema.get("$defs", {})
    refers = {name: set(_REFERENCE.findall(json.dumps(each))) for name, each in definitions.items()}
    for _ in refers:
        refers = {name: to.union(*(refers.get(each, ()) for each in to)) for name, to in refers.items()}
    return any(name in to for name, to in refers.items()) or '"#"' in json.dumps(schema)


def _can_read(media_type: str, profile: Mapping[str, Any]) -> bool:
    match media_type.partition("/")[0]:
        case "image":
            return bool(profile.get("supports_image_input", True))
        case "audio":
            return bool(profile.get("supports_audio_file_input", True))
        case "video":
            return bool(profile.get("supports_video_input", True))
        case _:
            types = profile.get("supported_document_media_types")
            return bool(profile.get("supports_document_input", True)) and (types is None or media_type in types)


def _answered(part: Part, system: str, fitted: Any) -> ModelResponsePart | None:
    """Return a part of a turn in pydantic-ai's form; None if the system cannot be sent it."""
    from pydantic import ValidationError

    own = own_data(part, CODEC, system)
    plain: dict[str, Any]
    match part:
        case Text() if part.text.strip() or own:
            plain = {"part_kind": "text", "content": whole(part.text)}
        case Thinking() if own:
            plain = {"part_kind": "thinking", "content": whole(part.text)}
        case ToolCall():
            # Endpoints that parse the history refuse arguments that are not an object.
            arguments = part.arguments if is_object(part.arguments) else "{}"
            call_id = fitted(part.id)
            plain = {
                "part_kind": "tool-call",
                "tool_name": whole(part.name),
                "args": whole(arguments),
                "tool_call_id": call_id,
            }
        case Blob():
            from pydantic_ai.messages import BinaryContent

            plain = {"part_kind": "file", "content": BinaryContent(part.data, media_type=part.media_type)}
        case Opaque() if own:
            plain = {}
        case _:
            return None
    try:
        return _adapter().validate_python({**(own or {}), **plain})
    except ValidationError:  # data that this version of pydantic-ai does not know
        return _adapter().validate_python(plain) if plain and not isinstance(part, Thinking) else None


def _returned(result: ToolResult, call_id: str) -> ModelRequestPart:
    from pydantic_ai.messages import ToolReturnPart

    text = whole(result.text)
    files = [_content(part) for part in result.content if isinstance(part, Blob)]
    return ToolReturnPart(
        tool_name=whole(result.name),
        content=[text, *files] if files and text else files or text,
        tool_call_id=call_id,
        outcome="failed" if result.error else "success",
    )


def _system_parts(parts: Sequence[Text | Blob]) -> Iterator[ModelRequestPart]:
    from pydantic_ai.messages import SystemPromptPart

    for part in parts:
        if isinstance(part, Text):
            yield SystemPromptPart(content=whole(part.text))


def _content(part: Text | Blob) -> Any:
    from pydantic_ai.messages import BinaryContent

    return whole(part.text) if isinstance(part, Text) else BinaryContent(part.data, media_type=part.media_type)


@cache
def _adapter() -> TypeAdapter[ModelResponsePart]:
    from pydantic import TypeAdapter
    from pydantic_ai.messages import ModelResponsePart

    return TypeAdapter(ModelResponsePart)


def _turns() -> TypeAdapter[list[ModelMessage]]:
    from pydantic_ai.messages import ModelMessagesTypeAdapter

    return ModelMessagesTypeAdapter


# Errors of vendors' clients, from those of pydantic-ai.


class _Fault(NamedTuple):
    kind: type[ModelError]
    text: str
    remedy: str
    is_transient: bool = False


_FAULTS: Mapping[str, _Fault] = {
    "UserError": _Fault(RequestError, "cannot be asked this", "change the request, or use another model"),
    "ModelAuthenticationError": _Fault(
        ModelError, "refuses the API key, or does not allow this with it", "set {setup}, or the key of this address"
    ),
    "ModelNotFoundError": _Fault(ModelError, "has no such model or address", "check the model's name"),
    "ModelContextWindowExceededError": _Fault(
        PromptTooLongError, "has no room for so many tokens", "make the prompt shorter, or use a larger model"
    ),
    "ModelQuotaExceededError": _Fault(ModelError, "has no quota left", "add credit, or raise the quota"),
    "ModelRateLimitError": _Fault(ModelError, "gets too many calls at once", "wait, or set limits", True),
    "ModelTimeoutError": _Fault(
        ModelError, "was silent for {timeout:g} s", "increase the timeout, or request less", True
    ),
    "ModelUnavailableError": _Fault(ModelError, "is overloaded or down", "try again", True),
    "ModelServerError": _Fault(ModelError, "failed", "try again", True),
    "ModelRequestRejectedError": _Fault(RequestError, "rejects the request", "change the request"),
    "ModelConnectionError": _Fault(
        ModelError,
        "cannot be reached, or broke off its answer",
        "check the address and the network, or try again",
        True,
    ),
    "UnexpectedModelBehavior": _Fault(ModelError, "broke off its answer", "try again", True),
    "ModelHTTPError": _Fault(ModelError, "failed", "check the address"),
}
"""Faults by the names of pydantic-ai's errors, special ones first."""

_TOO_LARGE = _Fault(
    PromptTooLongError,
    "has no room for so large a request",
    "make the prompt shorter, or leave files out",
)


def failure_of(error: Exception, called: str, key: str, *, setup: str, timeout: float, page: str = "") -> ModelError:
    """Return the error to raise for another one, with a remedy and without the key.

    Args:
        called: Name of the model, for the message.
        key: The key, which the vendor may repeat.
        setup: Environment variables with the vendor's key or credentials.
        timeout: Maximum time without data from the vendor, in seconds.
        page: Description of a web page that arrived in place of an answer; empty without one.
    """
    from pydantic_ai import exceptions

    causes = list(_causes(error))
    if ours := next((each for each in causes if isinstance(each, ModelError)), None):  # of `limit_size`
        return ModelError(str(ours))
    status = getattr(error, "status_code", None)
    code = f" ({status})" if status else ""
    if page and status is None:
        return ModelError(f"{called} answered with {page}; check the address")
    told = page or _message_of(causes[-1] if isinstance(error, exceptions.ModelConnectionError) else error)
    if isinstance(error, exceptions.ModelTimeoutError):
        told = ""  # each package says it in another way
    message = f": {without_key(told, key)}" if told else ""
    for name, fault in _FAULTS.items():
        if isinstance(error, getattr(exceptions, name)):
            if issubclass(fault.kind, RequestError) and isinstance(status, int) and status >= 500:
                fault = _FAULTS["ModelServerError"]
            elif status == 413:  # Anthropic's request_too_large, or the limit of a gateway
                fault = _TOO_LARGE
            text, remedy = fault.text.format(timeout=timeout), fault.remedy.format(setup=setup)
            text = "broke off its answer" if fault.is_transient and getattr(error, "in_stream", False) else text
            is_transient = fault.is_transient and getattr(error, "provider_retry_hint", None) is not False
            return fault.kind(
                f"{called} {text}; {remedy}{code}{message}",
                transient=is_transient,
                retry_after=getattr(error, "retry_after", None),
            )
    if type(error).__module__.partition(".")[0] in ("botocore", "google"):  # credentials of clouds
        return ModelError(f"{called} cannot be asked{message}; set {setup}")
    return ModelError(f"{called}: its answer cannot be read ({type(error).__name__}{message})")


def reveals(error: BaseException, key: str) -> bool:
    """Return True if an error or one of its causes repeats the key."""
    return len(key) >= MIN_KEY and any(key in repr((each, each.args, vars(each))) for each in _causes(error))


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and its causes."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _message_of(error: BaseException) -> str:
    """Return the vendor's message inside an error, on one line."""
    body: Any = getattr(error, "body", None)
    if isinstance(body, list) and body:  # Google
        body = cast("list[Any]", body)[0]
    if isinstance(body, dict):
        body = cast("dict[str, Any]", body).get("error", cast("Any", body))
    said: object = cast("dict[str, Any]", body).get("message") if isinstance(body, dict) else cast("object", body)
    return one_line(said if isinstance(said, str) and said else str(getattr(error, "message", "") or error))


@dataclass(frozen=True, slots=True)
class Vendor:
    """A vendor of models whose own protocol is spoken.

    Attributes:
        extra: The extra that installs its packages.
        keys: Environment variables with its key, in order of precedence.
        address: Its usual address, where its package would take another one from the environment.
        setup: What else may be set in place of a key: credentials that its package finds; empty if it needs the key.
        strict: True if it enforces only closed JSON Schemas that are not recursive.
    """

    extra: str
    keys: tuple[str, ...]
    address: str = ""
    setup: str = ""
    strict: bool = False


VENDORS: Mapping[str, Vendor] = {
    "anthropic": Vendor("anthropic", ("ANTHROPIC_API_KEY",), "https://api.anthropic.com", strict=True),
    "bedrock": Vendor(
        "bedrock",
        ("AWS_BEARER_TOKEN_BEDROCK",),
        setup="AWS_DEFAULT_REGION, and AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        strict=True,
    ),
    "google": Vendor("google", ("GOOGLE_API_KEY", "GEMINI_API_KEY"), "https://generativelanguage.googleapis.com"),
    "google-cloud": Vendor(
        "google",
        ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
        setup="GOOGLE_APPLICATION_CREDENTIALS and GOOGLE_CLOUD_PROJECT",
    ),
    "mistral": Vendor("mistral", ("MISTRAL_API_KEY",)),
}
"""Vendors by the prefix of a model's name: ``anthropic:claude-opus-5-5``."""

_FINISHES: Mapping[str, FinishReason] = {
    "stop": "stop",
    "length": "length",
    "tool_call": "tools",
    "content_filter": "filter",
    "error": "error",
}


_SETTINGS = {
    "temperature": "temperature",
    "top_p": "top_p",
    "seed": "seed",
    "stop_sequences": "stop",
    "max_tokens": "max_tokens",
    "extra_body": "parameters",
}
"""Our names of settings by those of pydantic-ai."""

_KEY_HEADERS = ("Authorization", "x-api-key", "x-goog-api-key")
"""Headers with the key of a vendor."""

_GOOGLE_BOTH = "google_supports_tool_combination"
"""Entry of a profile: True if a model of Google takes tools together with a form of the answer."""

_responses: ContextVar[list[Any] | None] = ContextVar("_responses", default=None)
"""Responses of HTTP that arrived for the call that is being begun."""


async def _note_response(response: Any) -> None:
    if (noted := _responses.get()) is not None:
        noted.append(response)


class Provider:
    """Client of a model of a vendor, over the model classes of pydantic-ai; see `ChatModel`.

    Args:
        endpoint: The model, for its timeout and for checks of address and key.
        vendor: Key of `VENDORS`.
        base_url: The vendor's address; empty for its usual one.
        key: Its key; empty for the one of the environment, which is sent to the vendor's usual address only.

    Raises:
        MissingExtraError: The packages of the vendor are not installed.
        ModelError: No key is set, or address or key cannot be used.
    """

    def __init__(self, endpoint: Endpoint, vendor: str, name: str, base_url: str, key: str) -> None:
        self._endpoint, self._vendor, self._name = endpoint, VENDORS[vendor], f"{vendor}:{name}"
        self._called = f"{self._name} at {without_login(base_url)}" if base_url else self._name
        found = next(filter(None, map(os.environ.get, self._vendor.keys)), "")
        own = key or ("" if base_url or self._vendor.setup else found)
        self._key = own or found  # not shown in errors
        if not (own or base_url or self._vendor.setup):
            raise ModelError(f"{self._called} requires an API key, but none is set; set {self._setup}")
        if base_url:
            endpoint.check_address(base_url)
        endpoint.check_key(own)
        # Without a key, the packages would take that of the environment, and send it to any address; `_open` removes the
        # headers of the stand-in.
        stand_in = "none" if base_url and (found or not self._vendor.setup) else None
        with self._checked():
            self._open(base_url, own, stand_in)

    def _open(self, base_url: str, key: str, stand_in: str | None) -> None:
        """Make the vendor's client; its packages are imported here, and nowhere before."""
        import httpx2
        from pydantic_ai.exceptions import UserError
        from pydantic_ai.models import infer_model
        from pydantic_ai.providers import Provider as VendorProvider
        from pydantic_ai.providers import infer_provider_class

        address, login = split_login(base_url)
        self._http = httpx2.AsyncClient(
            **http_options(address),
            headers=login,
            timeout=self._endpoint.timeout,
            limits=httpx2.Limits(max_connections=1000, max_keepalive_connections=100),
            event_hooks={
                "request": [
                    *([] if key or not stand_in else [partial(replace_headers, _KEY_HEADERS, login)]),
                    partial(refuse_other_origin, self._called),
                ],
                "response": [_note_response, partial(limit_size, self._called)],
            },
            follow_redirects=True,
        )
        given = {
            "api_key": key or stand_in,
            "base_url": address or self._vendor.address or None,
            "http_client": self._http,
            "aws_read_timeout": self._endpoint.timeout,
        }

        def provider(prefix: str) -> VendorProvider[Any]:
            kind: Any = infer_provider_class(prefix)
            taken = signature(kind).parameters
            return kind(**{each: value for each, value in given.items() if value is not None and each in taken})

        try:
            self._model: VendorModel[Any] = infer_model(self._name, provider_factory=provider)
        except UserError as error:
            raise ModelError(f"{self._called} cannot be asked: {one_line(error.message)}; set {self._setup}") from error
        profile: Mapping[str, Any] = self._model.profile
        self._profile = profile

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def stream(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Tool] = (),
        tool_choice: ToolChoice = "auto",
        output: AnswerSchema | None = None,
        settings: ModelSettings = NO_SETTINGS,
    ) -> AsyncGenerator[Delta | Completion, None]:
        """Yield the pieces of a turn and its completion; see `ChatModel.stream`."""
        if unreadable := unreadable_types(messages, self._profile):
            raise RequestError(
                f"{self._called} cannot read {', '.join(unreadable)}; leave the file out, or use another model"
            )
        model = self._model
        history = history_of(messages, model.canonical_system, self._profile.get("tool_call_id_length"))
        given, parameters, dropped = self._request(history, tools, tool_choice, output, settings)
        noted: list[Any] = []
        tags = ThinkingTags()
        request = model.request_stream(history, given, parameters)
        with self._checked(noted):
            token = _responses.set(noted)
            try:
                opened = await request.__aenter__()
            finally:
                _responses.reset(token)
            try:
                async for event in opened:
                    for delta in _deltas_of(event, tags):
                        yield delta
            finally:  # also if this generator is closed: some packages read on, or leave the connection open
                for response in noted:
                    await response.aclose()
                await request.__aexit__(None, None, None)
        for kind, piece in tags.end():
            yield Delta(kind, piece)
        yield self._completion(opened, tags, dropped)

    def _request(
        self,
        history: list[ModelMessage],
        tools: Sequence[Tool],
        tool_choice: ToolChoice,
        output: AnswerSchema | None,
        settings: ModelSettings,
    ) -> tuple[Any, ModelRequestParameters, tuple[str, ...]]:
        """Return settings and parameters of a request, and the settings that the model does not take.

        The form of the answer is enforced by the vendor. If it cannot, the form is described at the end of the history:
        a change at its beginning would make the reasoning in it invalid, and what the vendor has cached of it useless.

        Raises:
            RequestError: The model cannot be asked this.
        """
        from pydantic_ai.exceptions import UserError
        from pydantic_ai.models import ModelRequestParameters
        from pydantic_ai.output import OutputObjectDefinition
        from pydantic_ai.tools import ToolDefinition

        plain = ModelRequestParameters(
            function_tools=[
                ToolDefinition(
                    name=tool.name,
                    description=tool.description or None,
                    parameters_json_schema=tool.parameters or {"type": "object", "properties": {}},
                )
                for tool in tools
            ]
        )
        forms = [plain]
        if output is not None and self._enforces(output, bool(tools)):
            answer = OutputObjectDefinition(json_schema=dict(output.schema or {}))
            forms = [replace(plain, output_mode="native", output_object=answer), plain]
        given, dropped = self._settings(settings)
        if tools:
            given |= {"tool_choice": tool_choice, "cache": True}  # more requests follow, which begin with this one
        for form in forms:
            # No await inside, because the filters of warnings belong to the process.
            with warnings.catch_warnings(), self._checked():
                warnings.simplefilter("ignore")
                try:
                    prepared, _ = self._model.prepare_request(given, form)
                except UserError:
                    if form is plain:
                        raise
                    continue
            for name in given.keys() & _SETTINGS.keys() - (prepared or {}).keys():
                del given[name]
                dropped.append(f"{_SETTINGS[name]}: this model does not take it")
            if output is not None and form is plain:
                describe_form(history, output)
            return given, form, tuple(sorted(dropped))
        raise AssertionError("unreachable")

    def _enforces(self, output: AnswerSchema, with_tools: bool) -> bool:
        """Return True if the vendor enforces the form of an answer."""
        if with_tools and self._model.system.startswith("google") and not self._profile.get(_GOOGLE_BOTH, False):
            return False
        if self._vendor.strict and not (output.response_format["json_schema"]["strict"] and not is_recursive(output)):
            return False
        return bool(self._profile.get("supports_json_schema_output"))

    def _settings(self, settings: ModelSettings) -> tuple[Any, list[str]]:
        """Return the settings of a request in pydantic-ai's words, and those that are left out, with the reason."""
        profile, unsupported = self._profile, self._model.unsupported_settings
        thinking = settings.thinking
        always, can = profile.get("thinking_always_enabled"), profile.get("supports_thinking")
        thinks = thinking not in (None, "off") and bool(always or can)
        wanted: dict[str, Any] = {
            "temperature": settings.temperature,
            "top_p": settings.top_p,
            "seed": settings.seed,
            "max_tokens": settings.max_tokens,
            "stop_sequences": list(settings.stop) or None,
            "thinking": False if thinking == "off" else thinking,
            "extra_body": dict(settings.parameters) or None,
        }
        given = {name: value for name, value in wanted.items() if value is not None}
        dropped = list[str]()
        for name in given.keys() & unsupported:
            del given[name]
            dropped.append(f"{_SETTINGS.get(name, name)}: the vendor does not have it")
        if thinking == "off" and always:
            dropped.append("thinking='off': this model always thinks; it is asked to think as little as it can")
        elif thinking not in (None, "off") and not (always or can):
            dropped.append(f"thinking={thinking!r}: this model does not think")
            del given["thinking"]
        if thinks and "claude" in self._name:  # others are errors of the vendor
            for name, allowed in (
                ("temperature", given.get("temperature") == 1),
                ("top_p", given.get("top_p", 0) >= 0.95),
            ):
                if name in given and not allowed:
                    del given[name]
                    dropped.append(f"{name}: Claude takes another one only if it does not think")
        # Operad retries; no notes are added to prompts.
        given |= {"max_retries": 0, "framing_announcement": "never", "timeout": self._endpoint.timeout}
        if (thinking != "off" or always) and profile.get("anthropic_binds_thinking_blocks"):
            # Without this, a conversation whose beginning changed is refused, and asked a second time.
            binding = {"prefix_mismatch_behavior": "drop_block"}
            given["anthropic_thinking"] = {"type": "adaptive", "block_binding": binding}
        return {name: value for name, value in given.items() if name not in unsupported}, dropped

    def _completion(self, opened: StreamedResponse, tags: ThinkingTags, dropped: tuple[str, ...]) -> Completion:
        """Return the completion of a received turn."""
        response = opened.get()
        details: Mapping[str, Any] = response.provider_details or {}
        raw = str(details.get("finish_reason") or "")
        # a vendor's word that pydantic-ai does not know for it counts if it is one of the usual ones
        finish = _FINISHES.get(response.finish_reason or raw, "stop" if raw else "error")
        if finish == "error":
            told = f" ({one_line(raw)})" if raw else ""
            raise ModelError(f"{self._called} broke off its answer{told}; try again", transient=True)
        message = without_tags(completed_message(response, self._model.canonical_system), tags)
        if finish == "filter" and (raw == "refusal" or "refusal" in details):
            finish = "refusal"
        elif finish == "stop" and message.tool_calls:
            finish = "tools"
        if any(each.get("type") == "thinking_dropped" for each in details.get("input_transformations") or ()):
            dropped = (*dropped, "thinking of earlier turns: what stands before it was changed")
        used = response.usage
        try:
            usage = Usage(
                prompt_tokens=used.input_tokens,
                completion_tokens=used.output_tokens,
                cached_tokens=used.cache_read_tokens,
                cache_written_tokens=used.cache_write_tokens,
                reasoning_tokens=used.output_reasoning_tokens or 0,
            )
        except OperadError as error:
            raise ModelError(f"{self._called}: its usage has invalid numbers of tokens") from error
        told = details.get("refusal") or details.get("block_reason_message") or details.get("block_reason") or ""
        return Completion(message, finish, usage, one_line(str(told)), dropped)

    @property
    def _setup(self) -> str:
        return " or ".join([*self._vendor.keys, *filter(None, [self._vendor.setup])])

    def _missing_extra(self) -> MissingExtraError:
        extra = self._vendor.extra
        return MissingExtraError(
            f"{self._name} needs the extra {extra!r}, whose packages are not installed, or too old: "
            f"{pip_install(extra)}"
        )

    @contextmanager
    def _checked(self, noted: Sequence[Any] = ()) -> Generator[None, None, None]:
        """Raise errors of Operad for those of pydantic-ai and of the packages below it, about the noted responses."""
        try:
            yield
        except OperadError:
            raise
        except ImportError as error:
            raise self._missing_extra() from error
        except Exception as error:
            setup, timeout = self._setup, self._endpoint.timeout
            page = next(filter(None, (described_page(beginning(each)) for each in noted[-1:])), "")
            failure = failure_of(error, self._called, self._key, setup=setup, timeout=timeout, page=page)
            if reveals(error, self._key):
                raise failure from None  # tracebacks show causes, too
            raise failure from error


def _deltas_of(event: Any, tags: ThinkingTags) -> Iterator[Delta]:
    """Yield the pieces of a turn in an event."""
    if event.event_kind == "part_start":
        part, kind = event.part, event.part.part_kind
        text = part.args if kind == "tool-call" else getattr(part, "content", "")
    elif event.event_kind == "part_delta":
        part, kind = event.delta, event.delta.part_delta_kind
        text = part.args_delta if kind == "tool_call" else part.content_delta
    else:
        return
    if text and kind == "text":
        yield from (Delta(*piece) for piece in tags.add(text))
    elif text and kind == "thinking":
        yield Delta("thinking", text)
    elif text and kind in ("tool-call", "tool_call"):
        yield Delta("call", text if isinstance(text, str) else json.dumps(text))
