"""Endpoints of vendors' own protocols that follow a script, and refuse what the vendors' published rules forbid.

What a vendor needs back must come back unchanged: an endpoint checks the signatures that it made.
"""

import hashlib
import json
import re
import threading
from base64 import b64encode, urlsafe_b64decode
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import takewhile
from typing import Any, ClassVar

from operad.runtime.models.model import Model
from operad.runtime.testing import BreakOff, CallTools, Fail, Hang, Refuse, Say
from operad.runtime.testing.scripted_model import pieces
from operad.runtime.values.message import Usage

KEY = "vendor-0123456789"


class RefusedError(Exception):
    """A request that breaks a rule."""

    def __init__(self, message, status=400, kind="invalid_request_error"):
        super().__init__(message)
        self.fail = Fail(status, message, error={"type": kind})


def need(holds, message, **others):
    """Refuse a request unless a rule holds."""
    if not holds:
        raise RefusedError(message, **others)


def digest(*values):
    return b64encode(hashlib.sha256(json.dumps(values, sort_keys=True).encode()).digest()).decode()


def without_marks(value):
    """A value without the marks of what is to be cached, which may move."""
    if isinstance(value, dict):
        return {name: without_marks(each) for name, each in value.items() if name != "cache_control"}
    return [without_marks(each) for each in value] if isinstance(value, list) else value


class VendorEndpoint:
    """An endpoint on this machine, as a context; `model` is its client.

    Attributes:
        requests: The bodies of the requests that reached a step.
        signed: Ids of calls made after reasoning.
    """

    name = ""
    check: Any
    events: Any
    is_end: Any
    error: Any

    def __init__(self, script, model="", **fields):
        self.requests, self.signed = [], set()
        self._script, self._model, self._fields = script if callable(script) else [*script], model or self.name, fields
        self._closed, self.turn, self.fault = threading.Event(), 0, None

    @property
    def model(self):
        """Client of this endpoint, without retries."""
        url = f"http://127.0.0.1:{self._server.server_port}"
        return Model(self._model, base_url=url, **{"api_key": KEY, "max_retries": 0, **self._fields})

    def __enter__(self):
        exchange = type("Exchange", (_Exchange,), {"endpoint": self})
        self._server = _Server(("127.0.0.1", 0), exchange)
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, kind, error, traceback):
        self._closed.set()
        self._server.shutdown()
        self._server.server_close()
        if self.fault:
            raise self.fault
        if kind is None and self._script and not callable(self._script):
            raise AssertionError(f"left of the script: {self._script}")

    async def __aenter__(self):
        return self.__enter__()

    async def __aexit__(self, *raised):
        self.__exit__(*raised)

    def play(self, exchange, path, headers, request):
        try:
            self.check(path, headers, request)
        except RefusedError as refused:
            return exchange.fail(refused.fail, self.error(refused.fail))
        self.requests.append(request)
        if callable(self._script):
            step = self._script(request)
        else:
            step = self._script.pop(0) if self._script else Fail(500, "the script is at its end")
        step = step(request) if callable(step) else step
        if isinstance(step, Hang):
            return self._closed.wait()
        if isinstance(step, Fail):
            return exchange.fail(step, self.error(step))
        self.turn += 1
        if isinstance(step, BreakOff):
            events = self.events(Say(step.text[: step.after_chars]), request)
            return exchange.stream(takewhile(lambda event: not self.is_end(event), events), whole=False)
        return exchange.stream(self.events(step, request))

    def signature(self, thinking, prefix=None):
        return digest(id(self), thinking, prefix)

    def ids(self, step):
        found = [f"{'signed' if step.thinking else 'plain'}_{id(self)}_{self.turn}_{n}" for n in range(len(step.pairs))]
        if step.thinking:
            self.signed.update(found)
        return found

    def usage(self, step):
        given = None if isinstance(step, Refuse) else step.usage
        return given or Usage(prompt_tokens=6, completion_tokens=len(step.text.split()))


class AnthropicEndpoint(VendorEndpoint):
    """Anthropic's messages."""

    name = "anthropic:claude-sonnet-4-6"
    FIELDS: ClassVar = set(
        "model messages max_tokens system tools tool_choice thinking stream temperature top_p stop_sequences "
        "output_config cache_control service_tier".split()
    )
    STOPS: ClassVar = {"length": "max_tokens", "content_filter": "refusal"}

    def check(self, path, headers, request):
        need(path.partition("?")[0] == "/v1/messages", path, status=404, kind="not_found_error")
        key = headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer ")
        need(key == KEY, f"invalid x-api-key {key}", status=401)
        need(headers.get("anthropic-version"), "anthropic-version: header is required")
        need({"model", "messages", "max_tokens"} <= request.keys(), "a field is missing")
        need(request.keys() <= self.FIELDS, f"{request.keys() - self.FIELDS}: Extra inputs are not permitted")
        thinks = request.get("thinking", {}).get("type") in ("enabled", "adaptive")
        need(
            not thinks or request.get("temperature", 1) == 1,
            "`temperature` may only be set to 1 when thinking is enabled",
        )
        need(
            not thinks or request.get("tool_choice", {}).get("type") not in ("any", "tool"),
            "Thinking may not be enabled when tool_choice forces tool use.",
        )
        need(
            "opus-5" not in request["model"] or not {"temperature", "top_p"} & request.keys(),
            "`temperature` is deprecated for this model.",
        )
        need(not {"temperature", "top_p"} <= request.keys(), "`temperature` and `top_p` cannot both be specified")
        need(
            json.dumps(request).count('"cache_control"') <= 4,
            "A maximum of 4 blocks with cache_control may be provided.",
        )
        for tool in request.get("tools", ()):
            need(tool["input_schema"].get("type") == "object", "tools.input_schema.type: Field required")
        self._check_schema(request.get("output_config", {}).get("format", {}).get("schema"))
        self.dropped = []
        for number, message in enumerate(request["messages"]):
            need(message["content"], f"messages.{number}: content must be non-empty")
            need(message["role"] == ("assistant" if number % 2 else "user"), "roles must alternate")
            for block in message["content"]:
                need(block["type"] != "text" or block["text"].strip(), "text must contain non-whitespace text")
                need(block["type"] != "thinking" or self._is_valid(request, number, block), "Invalid `signature`")
            self._check_calls(request, number)

    def _is_valid(self, request, number, block):
        prefix = self._prefix(request, number)
        if block["signature"] == self.signature(block["thinking"], prefix):
            return True
        behaviour = request.get("thinking", {}).get("block_binding", {}).get("prefix_mismatch_behavior")
        if prefix and behaviour == "drop_block":
            self.dropped.append(number)
            return True
        return False

    def _prefix(self, request, number):
        """Digest of all that stands before a turn, to which current models bind its reasoning; None for others."""
        if "opus-5-5" not in request["model"]:
            return None
        return digest(without_marks([request.get("system"), request.get("tools"), request["messages"][:number]]))

    def _check_calls(self, request, number):
        blocks = request["messages"][number]["content"]
        ids = [block["id"] for block in blocks if block["type"] == "tool_use"]
        if not ids:
            return
        need(all(re.fullmatch("[a-zA-Z0-9_-]+", each) for each in ids), "tool_use.id: String should match pattern")
        answers = request["messages"][number + 1]["content"][: len(ids)]
        found = [block.get("tool_use_id") for block in answers]
        need(
            sorted(map(str, found)) == sorted(ids), "`tool_use` ids were found without `tool_result` blocks after them"
        )
        if self.signed & {*ids}:
            need(blocks[0]["type"] == "thinking", "Expected `thinking`, but found another block")

    def _check_schema(self, schema, definitions: Any = None, inside=()):
        """Refuse open objects and recursive schemas."""
        if isinstance(schema, list):
            for each in schema:
                self._check_schema(each, definitions, inside)
        if not isinstance(schema, dict):
            return
        definitions = schema.get("$defs", definitions)
        if name := schema.get("$ref", "").removeprefix("#/$defs/"):
            need(name not in inside, "recursive schemas are not supported")
            self._check_schema(definitions[name], definitions, (*inside, name))
        need(schema.get("type") != "object" or schema.get("additionalProperties") is False, "additionalProperties")
        for name, each in schema.items():
            if name != "$defs":
                self._check_schema(each, definitions, inside)

    def events(self, step, request):
        usage = self.usage(step)
        fresh = usage.prompt_tokens - usage.cached_tokens - usage.cache_written_tokens
        read = {
            "input_tokens": fresh,
            "cache_read_input_tokens": usage.cached_tokens,
            "cache_creation_input_tokens": usage.cache_written_tokens,
            "output_tokens": 1,
        }
        dropped = [
            {
                "type": "thinking_dropped",
                "reason": "prefix_binding_mismatch",
                "message_index": number,
                "content_index": 0,
            }
            for number in self.dropped
        ]
        message = {"id": f"msg_{self.turn}", "type": "message", "role": "assistant", "model": request["model"]}
        message |= {"content": [], "stop_reason": None, "stop_sequence": None, "usage": read}
        yield {
            "type": "message_start",
            "message": {**message, **({"input_transformations": dropped} if dropped else {})},
        }
        for number, (start, deltas) in enumerate(self._blocks(step, request)):
            yield {"type": "content_block_start", "index": number, "content_block": start}
            for delta in deltas:
                yield {"type": "content_block_delta", "index": number, "delta": delta}
            yield {"type": "content_block_stop", "index": number}
        reason = step.finish_reason if isinstance(step, Say) else "stop"
        if reason == "error":
            yield {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
            return
        stop = "tool_use" if isinstance(step, CallTools) else self.STOPS.get(reason, "end_turn")
        delta = {"stop_reason": stop, "stop_sequence": None}
        if isinstance(step, Refuse):
            details = {"type": "refusal", "category": None, "explanation": step.text}
            delta = {"stop_reason": "refusal", "stop_sequence": None, "stop_details": details}
        written = {"output_tokens": usage.completion_tokens}
        written["output_tokens_details"] = {"thinking_tokens": usage.reasoning_tokens}
        yield {"type": "message_delta", "delta": delta, "usage": written}
        yield {"type": "message_stop"}

    def _blocks(self, step, request):
        if not isinstance(step, Refuse) and step.thinking:
            signature = self.signature(step.thinking, self._prefix(request, len(request["messages"])))
            deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(step.thinking)]
            start = {"type": "thinking", "thinking": "", "signature": ""}
            yield start, [*deltas, {"type": "signature_delta", "signature": signature}]
        if step.text and not isinstance(step, Refuse):
            yield {"type": "text", "text": ""}, [{"type": "text_delta", "text": piece} for piece in pieces(step.text)]
        if isinstance(step, CallTools):
            for call_id, (name, arguments) in zip(self.ids(step), step.pairs, strict=True):
                text = arguments if isinstance(arguments, str) else json.dumps(arguments)
                start = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
                yield start, [{"type": "input_json_delta", "partial_json": piece} for piece in pieces(text)]

    def is_end(self, event):
        return event["type"] == "content_block_stop"

    def error(self, step):
        return {"type": "error", "error": {"type": "api_error", "message": step.message, **step.error}}


class GoogleEndpoint(VendorEndpoint):
    """Google's generateContent."""

    name = "google:gemini-3-pro-preview"
    FIELDS: ClassVar = set("contents tools toolConfig systemInstruction generationConfig safetySettings".split())
    STOPS: ClassVar = {"length": "MAX_TOKENS", "content_filter": "SAFETY", "error": "MALFORMED_FUNCTION_CALL"}

    def check(self, path, headers, request):
        need(re.fullmatch(r"/v1beta/models/[\w.-]+:streamGenerateContent\?alt=sse", path), path, status=404)
        need(headers.get("x-goog-api-key") == KEY, f"invalid key {headers.get('x-goog-api-key')}", status=401)
        need(request.keys() <= self.FIELDS, f"Unknown name {request.keys() - self.FIELDS}")
        contents = request["contents"]
        need(contents and contents[0]["role"] == "user", "contents must start with user")
        for number, content in enumerate(contents):
            need(content["parts"], "parts must not be empty")
            calls = [part for part in content["parts"] if "functionCall" in part]
            if calls:
                self._check_signature(content["parts"], calls[0])
                answers = [
                    part["functionResponse"] for part in contents[number + 1]["parts"] if "functionResponse" in part
                ]
                ids = [part["functionCall"].get("id") for part in calls]
                need(
                    [each.get("id") for each in answers] == ids,
                    "function responses must be those of the calls, in order",
                )

    def _check_signature(self, parts, call):
        signature = urlsafe_b64decode(call.get("thoughtSignature", "") + "==")
        if call["functionCall"].get("id") in self.signed:
            need(signature == self._made(call["functionCall"]["args"]), "Corrupted thought signature.")
        else:
            need(signature, "Function call is missing a thought_signature in functionCall parts.")
        need(not any(part.get("thought") and not part.get("text") for part in parts), "empty thought")

    def _made(self, arguments):
        return hashlib.sha256(self.signature(json.dumps(arguments, sort_keys=True)).encode()).digest()

    def events(self, step, request):
        usage = self.usage(step)
        counted = {
            "promptTokenCount": usage.prompt_tokens,
            "cachedContentTokenCount": usage.cached_tokens,
            "candidatesTokenCount": usage.completion_tokens - usage.reasoning_tokens,
            "thoughtsTokenCount": usage.reasoning_tokens,
            "totalTokenCount": usage.tokens,
        }

        def chunk(parts, **further):
            candidate = {"content": {"role": "model", "parts": parts}, "index": 0, **further}
            return {"candidates": [candidate], "usageMetadata": counted, "modelVersion": "gemini", "responseId": "r"}

        for part in self._parts(step):
            yield chunk([part])
        reason = step.finish_reason if isinstance(step, Say) else "stop"
        yield chunk([{"text": ""}], finishReason=self.STOPS.get(reason, "STOP"))

    def _parts(self, step):
        for piece in pieces(step.thinking):
            yield {"text": piece, "thought": True}
        for piece in pieces(step.text):
            yield {"text": piece}
        if isinstance(step, CallTools):
            for number, (call_id, (name, arguments)) in enumerate(zip(self.ids(step), step.pairs, strict=True)):
                call = {"functionCall": {"id": call_id, "name": name, "args": arguments}}
                signature = b64encode(self._made(arguments)).decode()
                yield call | ({"thoughtSignature": signature} if step.thinking and not number else {})

    def is_end(self, event):
        return "finishReason" in event["candidates"][0]

    def error(self, step):
        status = {401: "UNAUTHENTICATED", 404: "NOT_FOUND", 503: "UNAVAILABLE"}.get(step.status, "INVALID_ARGUMENT")
        error = {"code": step.status, "message": step.message, "status": status, "details": []}
        if seconds := step.headers.get("retry-after"):
            info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": f"{seconds}s"}
            error |= {"status": "RESOURCE_EXHAUSTED", "details": [info]}
        return {"error": error}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


class _Exchange(BaseHTTPRequestHandler):
    endpoint: Any
    protocol_version = "HTTP/1.1"

    def log_message(self, format, *args):
        pass

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        try:
            self.endpoint.play(self, self.path, headers, json.loads(body))
        except ConnectionError:
            pass
        except Exception as error:  # noqa: BLE001 - raised in the test
            self.endpoint.fault = error
        self.close_connection = True

    def fail(self, step, error):
        body = json.dumps(error).encode()
        self._head(step.status, {"content-type": "application/json", "content-length": len(body), **step.headers})
        self.wfile.write(body)

    def stream(self, events, whole=True):
        self._head(200, {"content-type": "text/event-stream", "transfer-encoding": "chunked"})
        for event in events:
            name = f"event: {event['type']}\n" if "type" in event else ""
            said = f"{name}data: {json.dumps(event)}\n\n".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(said), said))
        if whole:
            self.wfile.write(b"0\r\n\r\n")

    def _head(self, status, headers):
        self.send_response(status)
        for name, value in {**headers, "connection": "close"}.items():
            self.send_header(name, str(value))
        self.end_headers()
