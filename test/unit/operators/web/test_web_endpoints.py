import asyncio
import json
import traceback
from base64 import b64encode

import pytest
from pydantic import SecretStr

from operad.operators.web import endpoints
from operad.operators.web.endpoints import ImageModel, SpeechModel
from operad.runtime.policies.policy import Retry
from operad.runtime.values.errors import ModelError

KEY = "sk-test-0123456789abcdef"
PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)
JPEG = b"\xff\xd8\xff" + bytes(20)


def painter(host, **fields):
    return ImageModel(name="draw", base_url=f"{host}/v1", api_key=SecretStr(KEY), max_retries=0, **fields)


def speaker(host, **fields):
    return SpeechModel(name="read", base_url=f"{host}/v1", api_key=SecretStr(KEY), max_retries=0, **fields)


def drawn(web, *images, **more):
    return web.reply(json.dumps({"created": 1, "data": images, **more}).encode(), content_type="application/json")


async def failure(asking):
    """The error that a call ends with; the key is nowhere in it."""
    with pytest.raises(ModelError) as raised:
        await asking
    assert KEY not in "".join(traceback.format_exception(raised.value))
    return raised.value


async def test_images_come_as_bytes_with_their_types(web):
    host = await web.serve(drawn(web, *({"b64_json": b64encode(data).decode()} for data in (PNG, JPEG, b"?"))))
    made = await painter(host, size="512x512").generate("a fig", count=3)
    assert made == [(PNG, "image/png"), (JPEG, "image/jpeg"), (b"?", "application/octet-stream")]
    [request] = web.requests
    assert (request.path, request.headers["authorization"]) == ("/v1/images/generations", f"Bearer {KEY}")
    assert json.loads(request.body) == {"model": "draw", "prompt": "a fig", "n": 3, "size": "512x512"}


async def test_a_request_that_is_sent_again_is_an_event_first(web, in_a_run):
    answers = [web.reply(b"busy", 503, retry_after_ms=1), drawn(web, {"b64_json": b64encode(PNG).decode()})]
    model = painter(await web.serve(lambda request: answers.pop(0))).model_copy(update={"max_retries": 1})
    made, heard = await in_a_run(lambda: model.generate("a fig"))
    assert made == [(PNG, "image/png")]
    assert [(event.model, event.delay, event.retry) for event in heard] == [("draw", 0.001, 1)]


async def test_an_answer_that_drips_ends_with_the_total_time_of_the_call(web):
    async def drips(request):
        yield b"HTTP/1.1 200 OK\r\nX-Slow: "
        while True:
            yield b"y"
            await asyncio.sleep(0.01)

    model = painter(await web.serve(drips), total_timeout=0.2)
    assert "took longer than 0.2 s in all" in str(await failure(model.generate("a fig")))


async def test_a_redirect_to_another_origin_is_refused(web):
    elsewhere = await web.serve(web.reply(b""))
    host = await web.serve(web.reply(b"", 307, location=f"{elsewhere}/v1/images/generations"))
    assert f" redirects to {elsewhere}, and neither" in str(await failure(painter(host).generate("a fig")))
    assert len(web.requests) == 1


@pytest.mark.parametrize("where", ["{host}/files/1.png", "/files/1.png"])
async def test_an_image_at_the_endpoints_own_host_is_fetched(web, where):
    def answer(request):
        if request.method == "POST":
            return drawn(web, {"url": where.format(host=f"http://{request.headers['host']}")})
        return web.reply(PNG, content_type="application/octet-stream")

    host = await web.serve(answer)
    assert await painter(host).generate("a fig") == [(PNG, "image/png")]
    assert (web.requests[1].path, web.requests[1].headers.get("authorization")) == ("/files/1.png", None)


async def test_an_image_elsewhere_is_fetched_only_from_a_public_address(web):
    other = await web.serve(web.reply(PNG))
    host = await web.serve(drawn(web, {"url": f"{other}/1.png"}))
    error = await failure(painter(host).generate("a fig"))
    assert "cannot be fetched" in str(error)
    assert not error.transient
    assert len(web.requests) == 1


@pytest.mark.parametrize(("status", "transient"), [(404, False), (503, True), (200, False)])
async def test_an_image_that_is_not_there_is_an_error(web, status, transient):
    def answer(request):
        return (
            drawn(web, {"url": "/1.png"})
            if request.method == "POST"
            else web.reply(b"no", status, content_type="text/html")
        )

    error = await failure(painter(await web.serve(answer)).generate("a fig"))
    assert "an image that is not there" in str(error)
    assert error.transient is transient


@pytest.mark.parametrize(
    "body",
    [
        b"<html>",
        b"[]",
        b"[" * 100_000,
        b'{"data": []}',
        b'{"data": null}',
        b'{"data": [{}]}',
        b'{"data": ["x"]}',
        b'{"data": [{"b64_json": "no base64!"}]}',
        b'{"data": [{"b64_json": 7}]}',
    ],
)
async def test_what_is_no_answer_of_the_protocol_says_so(web, body):
    error = await failure(painter(await web.serve(web.reply(body, content_type="application/json"))).generate("a fig"))
    assert "draw at http://127.0.0.1" in str(error)
    assert "does not speak the OpenAI images protocol" in str(error)


@pytest.mark.parametrize(
    ("status", "why", "transient"),
    [
        (400, "rejects the request (400): no [key]", False),
        (401, "refuses the API key", False),
        (404, "has no such model", False),
        (429, "has no room", True),
        (500, "failed (500)", True),
    ],
)
async def test_a_refusal_says_why_and_whether_to_try_again(web, status, why, transient):
    said = json.dumps({"error": {"message": f"no {KEY}"}}).encode()
    host = await web.serve(web.reply(said, status, content_type="application/json", retry_after="3"))
    for ask in (painter(host).generate, speaker(host).speak):
        error = await failure(ask("a fig"))
        assert why in str(error)
        assert error.transient is transient
        assert error.retry_after == (None if status == 401 else 3)


async def test_speech_comes_as_bytes_with_its_type(web):
    host = await web.serve(web.reply(b"RIFF", content_type="audio/wav; rate=24000"))
    assert await speaker(host, voice="echo", format="wav").speak("Good day. 你好") == (b"RIFF", "audio/wav")
    [request] = web.requests
    assert request.path == "/v1/audio/speech"
    assert json.loads(request.body) == {
        "model": "read",
        "input": "Good day. 你好",
        "voice": "echo",
        "response_format": "wav",
    }


@pytest.mark.parametrize(("sound", "mime_type"), [("mp3", "audio/mpeg"), ("wav", "audio/wav"), ("opus", "audio/ogg")])
async def test_speech_of_no_said_type_is_what_was_asked_for(web, sound, mime_type):
    host = await web.serve(web.reply(b"sound", content_type="application/octet-stream"))
    assert await speaker(host, format=sound).speak("x") == (b"sound", mime_type)


@pytest.mark.parametrize(
    ("body", "mime_type"), [(b"", "audio/mpeg"), (b"{}", "application/json"), (b"<p>", "text/html")]
)
async def test_what_is_no_sound_is_an_error(web, body, mime_type):
    host = await web.serve(web.reply(body, content_type=mime_type))
    assert "does not speak the OpenAI speech protocol" in str(await failure(speaker(host).speak("x")))


async def test_an_answer_that_breaks_off_is_worth_another_try(web):
    host = await web.serve(web.reply(b"sound", content_length=100, content_type="audio/mpeg"))
    error = await failure(speaker(host).speak("x"))
    assert "broke off its answer" in str(error)
    assert Retry().wants(error)


async def test_an_answer_without_end_is_cut_off(web, monkeypatch):
    monkeypatch.setattr(endpoints, "MAX_ANSWER_BYTES", 10_000)

    async def answer():
        yield web.reply(content_length=None, content_type="audio/mpeg")
        while True:
            yield b"x" * 1000

    host = await web.serve(lambda _: answer())
    error = await failure(speaker(host).speak("x"))
    assert "larger than the maximum of 10,000 bytes" in str(error)
    assert not error.transient


async def test_an_endpoint_that_is_silent_or_gone_is_worth_another_try(web):
    async def silence():
        await asyncio.Event().wait()
        yield b""

    host = await web.serve(lambda _: silence())
    silent = await failure(speaker(host, timeout=0.1).speak("x"))
    gone = await failure(painter("http://127.0.0.1:1").generate("x"))
    assert "was silent for 0.1 s" in str(silent)
    assert "cannot connect" in str(gone)
    assert silent.transient
    assert gone.transient


async def test_a_call_that_is_cancelled_lets_go_of_its_connection(web):
    asked, gone = asyncio.Event(), asyncio.Event()

    async def answer():
        try:
            yield web.reply(content_length=None, content_type="audio/mpeg")
            asked.set()
            while True:
                yield b"x"
                await asyncio.sleep(0.01)
        finally:
            gone.set()

    host = await web.serve(lambda _: answer())
    speaking = asyncio.ensure_future(speaker(host).speak("x"))
    await asked.wait()
    speaking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await speaking
    await gone.wait()


def test_they_are_values_that_show_no_key():
    one, other = painter("http://me:secret@h"), painter("http://me:secret@h")
    assert one == other
    assert KEY not in repr(one) + one.describe() + json.dumps(one.fingerprint())
    assert one.describe() == "draw at http://h/v1"
    assert one.fingerprint()["base_url"] == "http://h/v1"
    assert one.fingerprint() != one.model_copy(update={"size": "1x1"}).fingerprint()
