"""Nodes http-request and request."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple, cast
from urllib.parse import urlencode

from pydantic import Field

from operad.operators.node import ADVANCED, Fault, NodeCall, NodeError, NodeOperator, NodeParams, ParamsT, TypeOf
from operad.operators.request_secrets import (
    Filling,
    KeyField,
    key_fields,
    literal_host,
    shows_secret,
    without_secrets,
)
from operad.operators.services import Sent
from operad.operators.variables import WITHOUT_FILES, Accepts, Selector, Text, Values, VariableType, short_json, type_of
from operad.operators.web.fetch import Fetched, Guard, host_and_port
from operad.runtime.values.errors import FetchError, InputError, MissingExtraError
from operad.runtime.values.file import FileDescriptor, suffix_of
from operad.runtime.values.pip import pip_install
from operad.runtime.values.secret import Secret, SecretUse, hide, is_secret_name, literal_key, secret_name, secrets_in

T = VariableType

MAX_SENT_FILE = 50 * 2**20
"""Maximum size of a file that is sent, in bytes."""


class Part(NamedTuple):
    """A field of a form, or the whole of another body."""

    name: Annotated[Text, Field(description="Its name; empty for a whole body.")]
    value: Annotated[
        Selector | Text,
        Field(description="Its text, or a variable with files.", union_mode="left_to_right"),
    ]


class Body(NamedTuple):
    """A body of a request."""

    type: Annotated[
        Literal["json", "raw-text", "x-www-form-urlencoded", "form-data", "binary"], Field(description="Its form.")
    ]
    parts: Annotated[list[Part], Field(description="Its fields; one without a name for json, raw-text and binary.")]


class Authorization(NamedTuple):
    """A key that is sent."""

    type: Annotated[Literal["bearer", "basic", "custom"], Field(description="The scheme; custom for the key alone.")]
    key: Annotated[
        Text,
        Field(description="The key as a text with {{secret.NAME}} or {{#id.variable#}}; for basic, name:password."),
    ] = Text()
    header: Annotated[str, Field(description="The header.")] = "Authorization"
    secret: Annotated[str, Field(description="The name of the secret that is the key, in place of key.")] = ""

    @property
    def key_text(self) -> Text:
        """The key as a text that names its secrets and variables."""
        return Text(Secret(self.secret).in_text) if self.secret else self.key


class HttpParams(NodeParams):
    """An address."""

    url: Annotated[Selector, Accepts((T.STRING,))] = Field(description="The address; it is fetched by GET.")


class RequestParams(NodeParams):
    """A request."""

    url: Annotated[Selector | Text, Accepts(WITHOUT_FILES)] = Field(
        description="The address: a variable, or a text with {{#id.variable#}}.", union_mode="left_to_right"
    )
    method: Literal["get", "post", "put", "patch", "delete", "head", "options"] = Field(
        default="get", description="The HTTP method."
    )
    headers: Text = Field(
        default=Text(), description="Headers, one a line, name: value; variables as {{#id.variable#}}."
    )
    params: Text = Field(
        default=Text(),
        description="The query, one a line, name: value; it takes the place of the address's own.",
    )
    body: Annotated[Body | None, ADVANCED] = Field(
        default=None,
        description="The body; json, raw-text and binary have one part without a name, x-www-form-urlencoded and form-data "
        "a part for each field. In json, variables stand in quotes.",
    )
    authorization: Annotated[Authorization | None, ADVANCED] = Field(
        default=None,
        description="A key that is sent, by the scheme bearer, basic (name:password) or custom. Keys are named, as secret: "
        "NAME, or {{secret.NAME}} in any text of the request; they are not written in the file.",
    )
    secret_hosts: Annotated[list[str], ADVANCED] = Field(
        default_factory=list[str],
        description="The hosts, as host or host:port, that get the secrets, where a variable decides on the host of url; by "
        "default any.",
    )
    timeout: float | None = Field(
        default=None, gt=0, description="Seconds that all of it may take, where that is less than the guard allows."
    )


_TYPES = {
    "json": "application/json",
    "raw-text": "text/plain",
    "x-www-form-urlencoded": "application/x-www-form-urlencoded",
}


class _Request(NodeOperator[ParamsT]):
    gives = "body (string), status_code (number), headers (object), files (array[file]: a response that is not text)"

    def outputs(self, type_of: TypeOf) -> Mapping[str, VariableType]:
        """Return the types of the outputs."""
        return {"body": T.STRING, "status_code": T.NUMBER, "headers": T.OBJECT, "files": T.ARRAY_FILE}

    @property
    def unknown_outputs(self) -> Sequence[str]:
        """Outputs with the content of the response."""
        return ("body", "headers", "files")

    def _url(self, declared: Selector | Text, call: NodeCall | Filling) -> str:
        """Return the URL from a variable or a text."""
        url = call.get(declared) if isinstance(declared, Selector) else call.text(declared)
        if not isinstance(url, str) or not url.strip():
            named = f"variable {str(declared)!r}" if isinstance(declared, Selector) else "url"
            raise NodeError(f"{self._who}: {named} is {type_of(url)}, and an address is needed: {short_json(url)}")
        return url

    def _outputs_of(self, fetched: Fetched) -> Values:
        """Return the outputs for a response."""
        if self.params.failure is not None and fetched.status >= 400:
            raise FetchError(
                f"{self._who}: the address answers with status {fetched.status}",
                transient=fetched.status >= 500 or fetched.status == 429,
            )
        common: dict[str, Any] = {"status_code": fetched.status, "headers": dict(fetched.headers), "files": []}
        if _is_text(fetched.content_type):
            return {"body": fetched.text(), **common}
        file = self.services.write(f"{self.type}-{self.get_id()}", suffix_of(fetched.content_type), fetched.body)
        return {"body": "", **common, "files": [file]}


class HttpRequest(_Request[HttpParams]):
    """Fetches an address of the web."""

    type = "http-request"
    params_type = HttpParams
    hint = "GET only."
    example = {"url": ["link", "1"]}

    async def compute(self, call: NodeCall) -> Values:
        """Fetch the URL."""
        return self._outputs_of(await self.services.fetch(self._url(self.params.url, call), self.services.guard))


class Request(_Request[RequestParams]):
    """Sends a request to an address of the web, with method, headers, query, body and key.

    An answer with a status of 400 or more counts as a failure only where `failure` is given; generated workflows give it.
    """

    type = "request"
    params_type = RequestParams
    hint = 'headers and params: lines of name: value. A body of json, raw-text or binary has one part, named ""; in json, variables stand in quotes. authorization: key, for basic as name:password; name keys as {{secret.NAME}}. A status of 400 or more ends the run, unless `failure` says otherwise or a node reads status_code.'
    example = {
        "url": ["link", "1"],
        "method": "post",
        "headers": "X-Reason: {{#1.reason#}}",
        "body": ["json", [["", '{"text": "{{#2.text#}}"}']]],
        "authorization": ["bearer", "{{secret.REVIEW_KEY}}"],
    }

    async def compute(self, call: NodeCall) -> Values:
        """Send the request."""
        guard, limit = self.services.guard, self.params.timeout
        if limit is not None:
            guard = replace(guard, timeout=min(guard.timeout, limit))
        filling = Filling(call, self._find_secret)
        leaking: Exception
        try:
            url = self._url(self.params.url, filling)
            sent = replace(await self._request_parts(filling), secrets=filling.values)
            self._check_host(url, sent)
            return self._outputs_of(without_secrets(await self.services.send(url, sent, guard), sent.secrets))
        except Exception as error:
            if not shows_secret(error, filling.values):
                raise
            leaking = error
        text = hide(
            str(leaking), filling.values
        )  # raised here, so that the error does not refer to the one with the value
        raise FetchError(text, transient=leaking.transient) if isinstance(leaking, FetchError) else NodeError(text)

    def _check_host(self, url: str, sent: Sent) -> None:
        """Check that the host of a request with secrets is one of `secret_hosts`, if there are any."""
        if not sent.secrets or not self.params.secret_hosts:
            return
        host, port = host_and_port(url)
        if not Guard(allowed_hosts=tuple(self.params.secret_hosts)).allows(host, port):
            allowed = ", ".join(self.params.secret_hosts)
            raise FetchError(f"{self._who}: its secrets are sent to {allowed} only (secret_hosts), and not to {host}")

    @property
    def secret_uses(self) -> Sequence[SecretUse]:
        """Secrets that the request names, and the hosts that they are sent to."""
        authorization, url = self.params.authorization, self.params.url
        texts = [*self.texts, *([authorization.key_text] if authorization is not None else [])]
        named = dict.fromkeys(secret for text in texts for secret in secrets_in(text))
        hosts = self.params.secret_hosts or [literal_host(url) if isinstance(url, Text) else ""]
        return [SecretUse(secret, host) for secret in named for host in hosts]

    @cached_property
    def key_fields(self) -> Sequence[KeyField]:
        """Fields that hold keys."""
        return key_fields(self.params.model_dump(mode="json"))

    def faults(self, type_of: TypeOf) -> Iterator[Fault]:
        """Yield faults: keys that are written in the request, and references to secrets that are invalid."""
        authorization = self.params.authorization
        if authorization is not None and authorization.secret and authorization.key:
            yield Fault("authorization", "has a key and a secret; leave key out")
        if authorization is not None and authorization.secret and not is_secret_name(authorization.secret):
            yield Fault(
                "authorization[3]", "must be the name of a secret: letters, digits and underscores", "literal-key"
            )
        for where, name, value in self.key_fields:
            if not literal_key(value):
                continue
            secret = Secret(secret_name(self.get_id(), name))
            how = f"write {secret.in_text} in its place"
            if where == "authorization":
                how = f"write secret: {secret.name} in place of key"
            problem = f"a key is written in {name!r}; {how}, and give its value by operad secrets set {secret.name}"
            yield Fault(where, f"{problem}, or as an environment variable", "literal-key")

    async def _request_parts(self, call: Filling) -> Sent:
        """Return the parts of the request other than the URL."""
        params = self.params
        query = tuple(
            (call.text(Text(name)), call.text(Text(value))) for name, value in named_lines(params.params) if name
        )
        headers = dict(named_lines(call.text(params.headers)))
        if params.authorization is not None:
            headers |= self._authorization_header(params.authorization, call)
        content, kind = await self._encoded_body(params.body, call) if params.body is not None else (None, "")
        named = {name.lower() for name in headers}
        if kind and (kind.startswith("multipart/") or "content-type" not in named):
            headers = {name: value for name, value in headers.items() if name.lower() != "content-type"}
            headers["Content-Type"] = kind
        return Sent(method=params.method.upper(), params=query, headers=headers, body=content)

    def _authorization_header(self, authorization: Authorization, call: Filling) -> Mapping[str, str]:
        key = call.text(authorization.key_text)
        if not key.strip():
            raise NodeError(f"{self._who}: the key of its authorization is empty; give one")
        if authorization.type == "basic":
            key = base64.b64encode(key.encode()).decode() if ":" in key else key
        scheme = {"bearer": "Bearer ", "basic": "Basic "}.get(authorization.type, "")
        return {authorization.header or "Authorization": f"{scheme}{key}"}

    async def _encoded_body(self, body: Body, call: Filling) -> tuple[bytes, str]:
        """Return the body and its media type; the type is empty for binary bodies."""
        if body.type in ("json", "raw-text", "binary"):
            if len(body.parts) != 1:
                raise NodeError(f"{self._who}: a body of type {body.type} has one part, not {len(body.parts)}")
            value = body.parts[0].value
            if body.type == "binary":
                files = self._files(value, call)
                return (await _read_file(files[0]) if files else b""), ""
            text = call.text(value) if isinstance(value, Text) else str(call.get(value))
            if body.type == "json":
                filled = _filled_json(value, call) if isinstance(value, Text) else None
                return self._json_body(text if filled is None else filled), _TYPES[body.type]
            return text.encode(), _TYPES[body.type]
        texts = [(call.text(p.name), call.text(p.value)) for p in body.parts if isinstance(p.value, Text)]
        if body.type == "x-www-form-urlencoded":
            return urlencode(dict(texts)).encode(), _TYPES[body.type]
        files = [(call.text(p.name), file) for p in body.parts for file in self._files(p.value, call)]
        return _multipart_form(texts, [(name, file, await _read_file(file)) for name, file in files])

    def _json_body(self, text: str) -> bytes:
        """Return a JSON text as the bytes to send; broken JSON is repaired, as in Dify."""
        try:
            value = _repaired_json(text)
        except (ValueError, RecursionError) as error:
            problem = f"{self._who}: its body is not JSON: {error}: {short_json(text)}"
            raise NodeError(problem) from error
        return json.dumps(value, ensure_ascii=False).encode()

    def _files(self, value: Selector | Text, call: Filling) -> list[FileDescriptor]:
        """Return the files of a variable; none for a text."""
        if not isinstance(value, Selector):
            return []
        variable = call.get(value)
        listed = cast("Sequence[Any]", variable) if isinstance(variable, list | tuple) else [variable]
        wrong = next((each for each in listed if not isinstance(each, FileDescriptor) and each is not None), None)
        if wrong is not None:
            raise NodeError(f"{self._who}: variable {str(value)!r} is {type_of(wrong)}, and a file is needed")
        return [each for each in listed if isinstance(each, FileDescriptor)]


_REFERENCE = re.compile(r"\{\{#[^#{}]+#\}\}|\{\{\s*secret\.\w+\s*\}\}")
_STRING_OR_REFERENCE = re.compile(rf'"(?:[^"\\]|\\.)*"|({_REFERENCE.pattern})', re.DOTALL)


def _filled_json(template: Text, call: Filling) -> str | None:
    """Return a JSON template with its variables replaced; None if the template is not a JSON object or list.

    Values in strings are escaped, so that quotes in them do not end a string. Outside of strings, a value is inserted
    as text, as in Dify, so that it may be several items of a list; the JSON that results may need a repair.
    References are those in the text of the file, as in `Request.secret_uses`: what looks like one only after escapes of
    JSON are decoded remains text.
    """

    def filled(match: re.Match[str]) -> str:
        if match[1]:
            return call.text(Text(match[1]))
        return _REFERENCE.sub(lambda each: json.dumps(call.text(Text(each[0])), ensure_ascii=False)[1:-1], match[0])

    try:
        form = json.loads(
            _STRING_OR_REFERENCE.sub(lambda match: '""' if match[1] else match[0], template), strict=False
        )
    except (ValueError, RecursionError):
        return None
    return _STRING_OR_REFERENCE.sub(filled, template) if isinstance(form, dict | list) else None


def _repaired_json(text: str) -> Any:
    """Return the value of a JSON text, after repairing it if necessary.

    Raises:
        ValueError: The text is not JSON, and cannot be repaired.
    """
    try:
        return _read_json(text)
    except ValueError:
        if len(text) > _MOST_REPAIRED:
            raise
    from json_repair import repair_json

    return _read_json(repair_json(text))


def _read_json(text: str) -> Any:
    """Return the value of a JSON text; NaN and Infinity, which Python reads, are not JSON."""

    def refuse(constant: str) -> Any:
        raise ValueError(f"{constant} is not JSON")

    return json.loads(text, strict=False, parse_constant=refuse)


_MOST_REPAIRED = 100_000
"""Most characters of a body whose JSON is repaired, because repairing takes quadratic time."""


def named_lines(text: str) -> list[tuple[str, str]]:
    """Return the pairs of a text with one ``name: value`` per line."""
    pairs = (line.partition(":") for line in text.splitlines() if line.strip())
    return [(name.strip(), value.strip()) for name, _, value in pairs]


async def _read_file(file: FileDescriptor) -> bytes:
    if file.size > MAX_SENT_FILE:
        raise InputError(f"{file.name}: has {file.size:,} bytes, more than the {MAX_SENT_FILE:,} that are sent")
    return await asyncio.to_thread(file.path.read_bytes)


def _multipart_form(
    texts: Sequence[tuple[str, str]], files: Sequence[tuple[str, FileDescriptor, bytes]]
) -> tuple[bytes, str]:
    """Return the body of a multipart form (RFC 7578) and its media type."""
    try:
        import httpx
    except ImportError as error:
        raise MissingExtraError(f"sending forms needs httpx ({error}): {pip_install('web')}") from error
    parts: list[tuple[str, Any]] = [(name, (None, value.encode())) for name, value in dict(texts).items()]
    parts += [(name, (file.name, data, file.mime_type)) for name, file, data in files]
    request = httpx.Request("POST", "http://form", files=parts)
    return request.read(), request.headers["content-type"]


def _is_text(content_type: str) -> bool:
    main, _, sub = content_type.partition("/")
    return main in ("", "text") or any(word in sub for word in ("json", "xml", "javascript", "yaml", "urlencoded"))
