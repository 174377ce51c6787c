"""Runs on a ComfyUI server that follows a script: its protocol, over real HTTP and a real websocket."""

import asyncio
import json
import re
import sys
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from websockets.asyncio import server

from operad.configs import load as load_configuration
from operad.integrations.comfyui.definitions import read_object_info
from operad.integrations.comfyui.formats import Definitions, dump_code, load
from operad.integrations.comfyui.operator import ComfyUI
from operad.integrations.comfyui.server import ComfyUIError
from operad.operators import OperatorConfig
from operad.runtime import FileDescriptor, InvalidError, Job, WorkflowMessage, events
from operad.runtime.policies.policy import Retry
from operad.runtime.testing import ScriptedReasoner
from operad.runtime.values.errors import FetchError, InputError, MissingExtraError
from operad.runtime.values.pip import pip_install

NOBODY: Any = None
"""Who thinks: nobody does."""

GRAPH = {
    "4": {"class_type": "CheckpointLoaderSimple", "inputs": {"ckpt_name": "sd.safetensors"}},
    "6": {"class_type": "CLIPTextEncode", "inputs": {"text": "a cat", "clip": ["4", 1]}},
    "10": {"class_type": "LoadImage", "inputs": {"image": "example.png"}},
    "3": {"class_type": "KSampler", "inputs": {"seed": 1, "model": ["4", 0], "positive": ["6", 0]}},
    "9": {"class_type": "SaveImage", "inputs": {"images": ["3", 0], "filename_prefix": "x"}},
}
PAGE = {
    "version": 0.4,
    "nodes": [
        {"id": 1, "type": "Reader", "mode": 0, "inputs": [], "outputs": [], "widgets_values": ["a.txt", 7]},
        {"id": 2, "type": "Note", "mode": 0, "inputs": [], "outputs": [], "widgets_values": ["buy figs"]},
    ],
    "links": [],
}
OBJECT_INFO = {
    "Reader": {
        "input": {"required": {"path": ["STRING", {}], "lines": ["INT", {"default": 3}], "deep": ["BOOLEAN", {}]}},
        "output": [],
        "output_node": True,
    }
}


class Server:
    """A ComfyUI server that follows a script.

    Attributes:
        play: What happens in a run: ``await play(run)``.
        answers: Instead of what the server would answer, by path: a status and a body.
        files: The content of files, by name.
        posts: What it was told, but for workflows and files: paths and values.
        prompts: The workflows that it was given.
        uploads: The bodies of the files that it was sent.
        waiting: Whether runs wait in the queue until the script takes them out.
    """

    def __init__(self):
        self.play = nothing
        self.answers, self.files, self.history = {}, {}, {}
        self.posts, self.prompts, self.uploads, self.viewed = [], [], [], []
        self.running, self.pending = [], []
        self.waiting = self.deaf = False
        self.begun = asyncio.Event()
        self._sockets, self._tasks = {}, set()

    async def start(self):
        self._talk = await server.serve(self._listen, "127.0.0.1", 0)
        self._server = await asyncio.start_server(self._exchange, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self):
        self._server.close()
        self._talk.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._talk.wait_closed()
        await asyncio.sleep(0)  # closed streams let go of their sockets

    async def _listen(self, socket):
        client = dict(parse_qsl(urlsplit(socket.request.path).query))["clientId"]
        self._sockets[client] = socket
        await socket.send(json.dumps({"type": "status", "data": {"status": {}, "sid": client}}))
        await socket.wait_closed()

    async def _exchange(self, reader, writer):
        self._tasks.add(asyncio.current_task())
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            method, path, _ = head.split(b"\r\n")[0].decode().split()
            if path.startswith("/ws") and not self.deaf:
                await self._pipe(head, reader, writer)
                return
            length = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
            body = await reader.readexactly(int(length[1])) if length else b""
            status, answer = self._answer(method, path, body)
            writer.write(b"HTTP/1.1 %d So\r\nContent-Length: %d\r\n\r\n" % (status, len(answer)) + answer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _pipe(self, head, reader, writer):
        """Hand a connection over to the server of websockets."""
        from_there, to_there = await asyncio.open_connection(*self._talk.sockets[0].getsockname())
        to_there.write(head)

        async def copy(source, target):
            with suppress(ConnectionError):
                while data := await source.read(2**16):
                    target.write(data)
                    await target.drain()
            target.close()

        try:
            await asyncio.gather(copy(reader, to_there), copy(from_there, writer))
        finally:
            to_there.close()

    def _answer(self, method, path, body):
        url = urlsplit(path)
        if answer := self.answers.get(url.path):
            return answer
        match method, url.path:
            case "POST", "/prompt":
                return 200, json.dumps(self._take(json.loads(body))).encode()
            case "POST", "/upload/image":
                self.uploads.append(body)
                return 200, json.dumps(
                    {"name": f"sent-{len(self.uploads)}.png", "subfolder": "", "type": "input"}
                ).encode()
            case "GET", "/queue":
                return 200, json.dumps({"queue_running": self.running, "queue_pending": self.pending}).encode()
            case "POST", ("/queue" | "/interrupt"):
                self.posts.append((url.path, json.loads(body)))
                return 200, b""
            case "GET", "/object_info":
                return 200, json.dumps(OBJECT_INFO).encode()
            case "GET", "/view":
                query = dict(parse_qsl(url.query, keep_blank_values=True))
                self.viewed.append(query)
                return (200, self.files[query["filename"]]) if query["filename"] in self.files else (404, b"")
        prompt_id = url.path.removeprefix("/history/")
        return 200, json.dumps({each: said for each, said in self.history.items() if each == prompt_id}).encode()

    def _take(self, asked):
        run = Run(self, f"run-{len(self.prompts)}", asked["client_id"])
        self.prompts.append(asked["prompt"])
        (self.pending if self.waiting else self.running).append(run.item)
        task = asyncio.create_task(run.played())
        self._tasks.add(task)
        return {"prompt_id": run.id, "number": 1, "node_errors": {}}


class Run:
    """A run, as a script plays it."""

    def __init__(self, server, prompt_id, client):
        self.server, self.id, self._client = server, prompt_id, client
        self.item = [1, prompt_id, {}, {"client_id": client}, ["9"]]

    async def played(self):
        self.server.begun.set()
        await self.server.play(self)

    async def say(self, kind, **data):
        """Tell the client."""
        await self.socket.send(json.dumps({"type": kind, "data": {"prompt_id": self.id, **data}}))

    @property
    def socket(self):
        return self.server._sockets[self._client]

    def end(self, outputs=None, status="success", messages=()):
        """Write the history, and leave the queue."""
        self.server.running = [item for item in self.server.running if item is not self.item]
        status = {"status_str": status, "completed": status == "success", "messages": list(messages)}
        self.server.history[self.id] = {"outputs": outputs or {}, "status": status}


async def nothing(run):
    """A run that never ends."""


def image(filename, **more):
    return {"filename": filename, "subfolder": "", "type": "output", **more}


def ending(*filenames, **outputs):
    """A script: a run that makes these images."""

    async def play(run):
        run.end({"9": {"images": [image(each) for each in filenames], **outputs}})
        await run.say("executing", node=None)

    return play


@pytest.fixture
async def comfy():
    comfy = Server()
    await comfy.start()
    yield comfy
    await comfy.stop()


@pytest.fixture
def draw(comfy, tmp_path):
    """Runs a workflow on the server: ``message = await draw(inputs=…)``."""

    async def draw(inputs=None, files=(), messages=(), workflow=GRAPH, **settings):
        operator = made(comfy.url, tmp_path, workflow, **settings)
        job = Job(goal="Draw.", inputs=inputs or {}, files=files)
        return await operator.execute(NOBODY, job, list(messages))

    return draw


def made(url, tmp_path, workflow=GRAPH, **settings):
    graph = load(json.dumps(workflow).encode()) if isinstance(workflow, dict) else workflow
    config = OperatorConfig(id="draw", instruction="Draw.")
    return ComfyUI(config, server=url, workflow=graph, **{"folder": tmp_path / "made", "timeout": 60, **settings})


def names(message):
    return [file.name for file in message.outputs["files"]]


async def failed(work, kind: Any = ComfyUIError) -> Any:
    with pytest.raises(kind) as raised:
        await work
    return raised.value


# What goes well


async def test_a_run_tells_its_progress_and_gives_two_images_as_files(comfy, draw, in_a_run, tmp_path):
    async def play(run):
        await run.say("execution_start")
        await run.say("execution_cached", nodes=["4", "10"])
        await run.say("executing", node="6")
        await run.say("executing", node="3")
        for value in (1, 2, 3):
            await run.socket.send(b"\0\0\0\1\0\0\0\1a picture on the way")
            await run.say("progress", node="3", value=value, max=4)
        await run.say("executing", node="9")
        await run.say("executed", node="9", output={"images": []})
        await run.say("execution_success")
        await asyncio.sleep(0.02)  # the history is written after that
        run.end({"9": {"images": [image("a_1.png"), image("a_2.png", subfolder="cats", type="temp")]}})

    comfy.play, comfy.files = play, {"a_1.png": b"one", "a_2.png": b"two"}
    message, heard = await in_a_run(draw)
    assert [(file.path, file.mime_type, file.path.read_bytes()) for file in message.outputs["files"]] == [
        (tmp_path / "made" / "a_1.png", "image/png", b"one"),
        (tmp_path / "made" / "a_2.png", "image/png", b"two"),
    ]
    assert comfy.viewed[1] == {"filename": "a_2.png", "subfolder": "cats", "type": "temp"}
    assert message.scratchpad == f"{tmp_path}/made/a_1.png\n{tmp_path}/made/a_2.png"
    assert all(isinstance(event, events.Progress) for event in heard)
    assert [(event.done, event.total) for event in heard] == [
        (2, 5),
        (3, 5),
        (4, 8),
        (5, 8),
        (6, 8),
        (7, 8),
        (8, 8),
    ]
    assert comfy.posts == []
    assert comfy.prompts[0]["6"]["inputs"] == {"text": "a cat", "clip": ["4", 1]}


async def test_a_run_may_wait_long_in_the_queue_and_hear_of_other_runs(comfy, draw):
    async def play(run):
        for left in (3, 2, 1):
            await run.say("status", prompt_id="other", status={"exec_info": {"queue_remaining": left}})
            await run.say("execution_error", prompt_id="other", node_id="1")
            await run.say("executing", prompt_id="other", node=None)
        comfy.pending.remove(run.item)
        comfy.running.append(run.item)
        await ending("a.png")(run)

    comfy.waiting, comfy.play, comfy.files = True, play, {"a.png": b"one"}
    assert names(await draw()) == ["a.png"]


async def test_what_is_no_message_is_passed_over(comfy, draw):
    async def play(run):
        for said in ("", "no JSON", "[1]", "{}", '{"type": 5, "data": 7}', "[" * 5000):
            await run.socket.send(said)
        for node, value, most in (([], 1, 2), ("3", "a", None), ("3", 1, 10**400), ("3", -5, 0), ("none", 1, 2)):
            await run.say("progress", node=node, value=value, max=most)
        await run.say("execution_cached", nodes=[{}, 5])
        await ending("a.png")(run)

    comfy.play, comfy.files = play, {"a.png": b"one"}
    assert names(await draw()) == ["a.png"]


async def test_texts_are_outputs_too(comfy, draw):
    comfy.play = ending(text=["a cat", 5])
    message = await draw()
    assert (message.scratchpad, message.outputs) == ("a cat", {"files": [], "texts": ["a cat"]})


async def test_without_a_websocket_the_history_tells(comfy, draw, caplog):
    async def play(run):
        run.end({"9": {"images": [image("a.png")]}})

    comfy.deaf, comfy.play, comfy.files = True, play, {"a.png": b"one"}
    assert names(await draw()) == ["a.png"]
    assert "tells no progress" in caplog.text


@pytest.mark.parametrize("rude", [True, False])
async def test_a_websocket_that_breaks_off_leaves_the_run_to_its_history(comfy, draw, rude):
    async def play(run):
        await run.say("executing", node="3")
        if rude:
            run.socket.transport.abort()
        else:
            await run.socket.close()
        await asyncio.sleep(0.02)
        run.end({"9": {"images": [image("a.png")]}})

    comfy.play, comfy.files = play, {"a.png": b"one"}
    assert names(await draw()) == ["a.png"]


# What is run


async def test_inputs_of_the_job_and_outputs_before_it_take_the_place_of_values_and_links(comfy, draw):
    comfy.play = ending()
    said = WorkflowMessage(outputs={"6.text": "a lighthouse", "words": 2})
    await draw(
        {"6.text": "a cow", "3.positive": "none", "9.filename_prefix": ["a", "b"], "topic": "x"}, messages=[said]
    )
    [sent] = comfy.prompts
    assert sent["6"]["inputs"] == {"text": "a lighthouse", "clip": ["4", 1]}
    assert sent["3"]["inputs"] == {"seed": 1, "model": ["4", 0], "positive": "none"}
    assert sent["9"]["inputs"]["filename_prefix"] == {"__value__": ["a", "b"]}


async def test_files_go_to_the_server_first(comfy, draw, tmp_path):
    comfy.play = ending()
    (tmp_path / "cat.png").write_bytes(b"meow")
    file = FileDescriptor.of(tmp_path / "cat.png")
    await draw({"10.image": "cat.png"}, files=(file,))
    await draw(messages=[WorkflowMessage(outputs={"10.image": file})])
    assert [sent["10"]["inputs"]["image"] for sent in comfy.prompts] == ["sent-1.png", "sent-2.png"]
    assert all(b'name="image"; filename="cat.png"' in body and b"meow" in body for body in comfy.uploads)


async def test_inputs_that_do_not_fit_are_all_told_with_near_names(comfy, draw, tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "cat.png").write_bytes(b"meow")
    files = tuple(FileDescriptor.of(tmp_path / folder / "cat.png") for folder in ("a", "b"))
    said = WorkflowMessage(outputs={"6.text": object()})
    error = await failed(draw({"6.txet": "a", "66.text": "b", "10.image": "cat.png"}, files, [said]), InvalidError)
    assert [(issue.code, issue.where) for issue in error.issues] == [
        ("unknown-input", "6.txet"),
        ("unknown-node", "66.text"),
        ("ambiguous-file", "10.image"),
        ("wrong-value", "6.text"),
    ]
    assert "did you mean 'text'" in error.issues[0].message
    assert "did you mean '6.text'" in error.issues[1].message
    assert comfy.prompts == []


async def test_what_the_page_saved_is_run_by_the_definitions_of_the_server(comfy, draw):
    comfy.play = ending()
    await draw({"1.lines": 9}, workflow=PAGE)
    [sent] = comfy.prompts
    assert {node_id: (node["class_type"], node["inputs"]) for node_id, node in sent.items()} == {
        "1": ("Reader", {"path": "a.txt", "lines": 9, "deep": False})
    }


async def test_the_workflow_may_be_a_file_and_code(comfy, draw, tmp_path):
    comfy.play = ending()
    (tmp_path / "cat.py").write_text(dump_code(load(json.dumps(GRAPH).encode()), Definitions()), encoding="utf-8")
    await draw(workflow=str(tmp_path / "cat.py"))
    assert {each: node["inputs"] for each, node in comfy.prompts[0].items()} == {
        each: node["inputs"] for each, node in GRAPH.items()
    }


async def test_the_definitions_of_a_server_are_read(comfy):
    known = await read_object_info(f" {comfy.url}/ ")
    assert list(known.classes) == ["Reader"]
    comfy.answers["/object_info"] = 200, b"{}"
    assert "names no node class" in str(await failed(read_object_info(comfy.url), FetchError))


async def test_yaml_names_the_operator(comfy, tmp_path):
    comfy.play, comfy.files = ending("a.png"), {"a.png": b"one"}
    (tmp_path / "cat.json").write_text(json.dumps(GRAPH), encoding="utf-8")
    (tmp_path / "expert.yaml").write_text(
        f"""
operators:
  - name: draw
    instruction: Draw.
    class: operad.integrations.comfyui.operator.ComfyUI
    params: {{server: "{comfy.url}", workflow: cat.json, folder: made}}
experts:
  - profile: {{name: Painter}}
    workflow: [[draw]]
""",
        encoding="utf-8",
    )
    workflow = load_configuration(tmp_path / "expert.yaml", trust=True).expert().workflow
    message = await workflow.aexecute(Job(goal="Draw.", inputs={"6.text": "a dog"}), ScriptedReasoner([]))
    assert names(message) == ["a.png"]
    assert (tmp_path / "made" / "a.png").is_file()  # paths are relative to the file
    assert comfy.prompts[0]["6"]["inputs"]["text"] == "a dog"


# What goes wrong


async def test_each_error_of_each_node_is_told(comfy, draw):
    refusal = {
        "error": {"type": "prompt_outputs_failed_validation", "message": "Prompt outputs failed validation"},
        "node_errors": {
            "4": {
                "class_type": "CheckpointLoaderSimple",
                "errors": [
                    {
                        "type": "value_not_in_list",
                        "message": "Value not in list",
                        "details": "ckpt_name: 'sd.safetensors' not in []",
                        "extra_info": {"input_name": "ckpt_name"},
                    }
                ],
            },
            "6": {"class_type": "CLIPTextEncode", "errors": [{"type": "exception_during_validation"}, 5]},
        },
    }
    comfy.answers["/prompt"] = 400, json.dumps(refusal).encode()
    error = await failed(draw(), InvalidError)
    assert [str(issue) for issue in error.issues] == [
        "[value-not-in-list] 4: ckpt_name of CheckpointLoaderSimple: Value not in list: ckpt_name: 'sd.safetensors' not in []",
        "[exception-during-validation] 6: CLIPTextEncode: the server does not say why",
        "[refused] 6: CLIPTextEncode: the server does not say why",
    ]


async def test_an_error_of_the_whole_workflow_is_told(comfy, draw):
    error = {"type": "missing_node_type", "message": "Node 'X' not found.", "extra_info": {"node_id": "7"}}
    comfy.answers["/prompt"] = 400, json.dumps({"error": error, "node_errors": []}).encode()
    assert [str(issue) for issue in (await failed(draw(), InvalidError)).issues] == [
        "[missing-node-type] 7: Node 'X' not found."
    ]


async def test_a_flood_of_errors_is_cut(comfy, draw):
    errors = {str(n): {"class_type": "X", "errors": [{"message": "y" * 5000}]} for n in range(200)}
    comfy.answers["/prompt"] = 400, json.dumps({"node_errors": errors}).encode()
    error = await failed(draw(), InvalidError)
    assert error.issues[-1].message == "and 150 more"
    assert len(str(error)) < 70_000


@pytest.mark.parametrize("by_history", [False, True])
async def test_an_error_of_a_node_is_told(comfy, draw, by_history):
    what = {"node_id": "3", "node_type": "KSampler", "exception_type": "RuntimeError", "exception_message": "no\n room"}

    async def play(run):
        if by_history:
            run.socket.transport.abort()
        else:
            await run.say("execution_error", **what)
        run.end(status="error", messages=[["execution_start", {}], 5, ["execution_error", what]])

    comfy.play = play
    assert str(await failed(draw())) == "node '3' (KSampler) failed on the ComfyUI server: RuntimeError: no room"


async def test_an_interruption_by_others_and_a_silent_failure_are_told(comfy, draw):
    async def interrupted(run):
        await run.say("execution_interrupted", node_id="3", node_type="KSampler")

    comfy.play = interrupted
    assert "somebody interrupted the run on the ComfyUI server, at node '3' (KSampler)" in str(await failed(draw()))

    async def silent(run):
        run.end(status="error")
        await run.say("executing", node=None)

    comfy.play = silent
    assert "does not say why" in str(await failed(draw()))


async def test_a_run_that_the_server_forgot_is_lost(comfy, draw):
    async def play(run):
        comfy.running.clear()
        run.socket.transport.abort()

    comfy.play = play
    assert "no longer knows the run run-0" in str(await failed(draw()))


async def test_a_server_that_cannot_be_reached_is_told_and_may_be_tried_again(tmp_path):
    error = await failed(made("http://127.0.0.1:9", tmp_path).execute(NOBODY, Job(goal="")), FetchError)
    assert "http://127.0.0.1:9/prompt: cannot be fetched" in str(error)
    assert "check that it runs there" in str(error)
    assert Retry().wants(error)


@pytest.mark.parametrize(
    ("path", "status", "body", "words"),
    [
        ("/prompt", 200, b"<html>", "is not JSON"),
        ("/prompt", 200, b"\xff", "not UTF-8"),
        ("/prompt", 200, b"[]", "neither a prompt_id nor an error"),
        ("/prompt", 200, b'{"prompt_id": 5}', "neither a prompt_id nor an error"),
        ("/prompt", 400, b"{}", "neither a prompt_id nor an error"),
        ("/prompt", 404, b"", "status 404; check that a ComfyUI server runs"),
        ("/prompt", 418, b"a tea\npot", "status 418: a tea pot"),
        ("/history/run-0", 200, b"[]", "it is not an object"),
        ("/history/run-0", 200, b'{"run-0": []}', "the run is not an object"),
        ("/history/run-0", 403, b"", "status 403"),
        ("/history/run-0", 500, b"", "status 500"),
        ("/view", 404, b"", "file 'a.png' of node '9' cannot be fetched"),
    ],
)
async def test_wrong_answers_are_told(comfy, draw, path, status, body, words):
    comfy.play, comfy.files, comfy.answers[path] = ending("a.png"), {"a.png": b"one"}, (status, body)
    assert words in str(await failed(draw(), FetchError))


async def test_a_wrong_answer_to_a_file_is_told(comfy, draw, tmp_path):
    (tmp_path / "cat.png").write_bytes(b"meow")
    file = FileDescriptor.of(tmp_path / "cat.png")
    for answer, words in (((200, b"{}"), "it contains no name"), ((413, b"too large"), "status 413: too large")):
        comfy.answers["/upload/image"] = answer
        assert words in str(await failed(draw({"10.image": "cat.png"}, (file,)), FetchError))
    (tmp_path / "cat.png").unlink()
    assert "cannot be read" in str(await failed(draw({"10.image": "cat.png"}, (file,)), InputError))


@pytest.mark.parametrize(
    ("address", "hint"),
    [("127.0.0.1:8188", "did you mean http://127.0.0.1:8188?"), ("", "'' is"), ("http://:x", "is not an address")],
)
def test_an_address_that_is_none_is_told_at_once(address, hint, tmp_path):
    with pytest.raises(InputError, match=re.escape(hint)):
        made(address, tmp_path)


def test_what_is_wrong_with_the_workflow_shows_before_a_run(tmp_path):
    graph = {**GRAPH, "9": {"class_type": "SaveImage", "inputs": {"images": ["33", 0]}}}
    [issue] = made("http://localhost", tmp_path, graph).check({})
    assert (issue.code, issue.where) == ("dangling-edge", "draw")
    with pytest.raises(InputError, match="no such file"):
        made("http://localhost", tmp_path, str(tmp_path / "none.json"))
    with pytest.raises(InputError, match="more than 0"):
        made("http://localhost", tmp_path, timeout=0)


def test_what_makes_alike_is_server_and_workflow(tmp_path):
    one, same = (made("http://localhost/", tmp_path).fingerprint() for _ in range(2))
    assert one == same
    other = {**GRAPH, "6": {"class_type": "CLIPTextEncode", "inputs": {"text": "a dog", "clip": ["4", 1]}}}
    assert one != made("http://localhost", tmp_path, other).fingerprint()
    assert one != made("http://localhost:1", tmp_path).fingerprint()


async def test_without_websockets_it_says_what_to_install(comfy, draw, monkeypatch):
    monkeypatch.setitem(sys.modules, "websockets.asyncio.client", None)
    assert pip_install("comfyui") in str(await failed(draw(), MissingExtraError))


# Who goes away


async def cancelled(comfy, draw):
    task = asyncio.create_task(draw())
    await comfy.begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_cancelled_run_is_interrupted_and_no_other(comfy, draw):
    comfy.running.append([0, "other", {}, {"client_id": "else"}, []])
    comfy.pending.append([2, "next", {}, {}, []])
    await cancelled(comfy, draw)
    assert comfy.posts == [("/interrupt", {"prompt_id": "run-0"})]


async def test_a_cancelled_run_that_has_not_begun_is_taken_out_of_the_queue(comfy, draw):
    comfy.waiting = True
    await cancelled(comfy, draw)
    assert comfy.posts == [("/queue", {"delete": ["run-0"]})]


async def test_a_run_that_takes_too_long_is_interrupted(comfy, draw):
    timeout = 0.2
    while not comfy.posts:  # on a slow machine the first may be over before it is in the queue
        timeout *= 2
        assert f"took longer than its `timeout` of {timeout:g} s" in str(await failed(draw(timeout=timeout)))
    assert comfy.posts == [("/interrupt", {"prompt_id": comfy.running[-1][1]})]


async def test_a_run_of_which_the_server_refuses_a_part_is_withdrawn(comfy, draw):
    take = comfy._take
    errors = {"9": {"class_type": "SaveImage", "errors": [{"type": "bad", "message": "No"}]}}
    comfy._take = lambda asked: {**take(asked), "node_errors": errors}
    assert [str(issue) for issue in (await failed(draw(), InvalidError)).issues] == ["[bad] 9: SaveImage: No"]
    assert comfy.posts == [("/interrupt", {"prompt_id": "run-0"})]


async def test_a_run_that_cannot_be_withdrawn_is_told_to_the_log(comfy, draw, caplog):
    comfy.answers["/queue"] = 200, b"<html>"
    await cancelled(comfy, draw)
    assert "a run may still be in progress on ComfyUI server" in caplog.text


# Files that mean harm


async def test_names_of_files_stay_in_the_folder(comfy, draw, tmp_path):
    given = [
        "../../x.png",
        "/etc/passwd",
        "..\\..\\y.png",
        "..",
        ".",
        "a\0b.png",
        "é" * 300 + ".png",
        "x.png",
        "n.p ng",
    ]
    comfy.play, comfy.files = ending(*given), dict.fromkeys(given, b"data")
    message = await draw()
    made = [file.path for file in message.outputs["files"]]
    assert len(set(made)) == len(given)
    assert {path.parent for path in made} == {tmp_path / "made"}
    assert [path.name for path in made][:3] == ["x.png", "passwd.bin", "y.png"]
    assert sorted(tmp_path.rglob("*")) == sorted([tmp_path / "made", *made])
    assert all(len(path.name) <= 120 for path in made)


async def test_what_is_no_file_of_the_run_is_not_fetched(comfy, draw):
    odd = [image("in.png", type="input"), image(""), image(5), image("b.png", subfolder=[]), [image("c.png")], None]

    async def play(run):
        run.end({"9": {"images": odd, "animated": [True], "more": 5}, "8": [], "7": {"images": {"a": image("d.png")}}})
        await run.say("executing", node=None)

    comfy.play = play
    assert (await draw()).outputs == {"files": [], "texts": []}
    assert comfy.viewed == []


async def test_files_are_bounded_together_and_those_before_are_kept(comfy, draw, tmp_path):
    comfy.play, comfy.files = ending("a.png", "b.png"), {"a.png": b"1" * 600, "b.png": b"2" * 600}
    error = await failed(draw(max_bytes=1000), FetchError)
    assert "file 'b.png' of node '9' cannot be fetched" in str(error)
    assert "is larger than the maximum of 400 bytes" in str(error)
    assert f"1 of 2 files were, and `max_bytes` allows 1,000 bytes in all; they are in {tmp_path / 'made'}" in str(
        error
    )
    assert [path.name for path in (tmp_path / "made").iterdir()] == ["a.png"]


async def test_so_many_files_are_not_taken(comfy, draw):
    comfy.play = ending(*(f"{n}.png" for n in range(1001)))
    assert "made 1,001 files, more than the maximum of 1,000" in str(await failed(draw()))
    assert comfy.viewed == []
