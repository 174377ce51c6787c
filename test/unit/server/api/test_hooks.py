"""Addresses that are told of questions and ends of runs: once each, signed, and a failure is said without the address."""

import asyncio
import base64
import json
import threading
import time
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from serving import Code, offered, served

from operad.runtime import InputError, Workflow, interrupt, operator
from operad.server.api.hooks import SECRET, Hook, QuestionListener, send_end
from operad.server.api.signatures import delivery_id


@contextmanager
def receiver(*statuses, signed=None):
    """A server that answers with these statuses; yields its address and the bodies that it got."""
    got, answers, requests = [], list(statuses), [] if signed is None else signed

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            got.append(json.loads(body))
            requests.append((dict(self.headers), body))
            self.send_response(answers.pop(0) if answers else 200)
            self.end_headers()

        def log_message(self, format, *args):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/hook", got
        finally:
            server.shutdown()
            thread.join()


@operator
async def sign(job: str) -> str:
    """Ask a person."""
    return "signed" if await interrupt("Sign the lease?", "boolean", answer_by=["anna"]) else "left"


def ask(address, inbox=""):
    """Run a workflow that asks, and wait until the question is sent."""
    flow, hook = Workflow(sign, name="lease"), Hook(address, "--on-question")
    flow.add_listener(QuestionListener(hook, inbox))
    with pytest.raises(Exception, match="Sign the lease"):
        flow.run("it", run_id="r1")
    hook._threads.shutdown(wait=True)


def test_a_question_is_sent_with_its_text_its_people_and_a_link():
    with receiver() as (address, got):
        ask(address, "http://here/inbox")
    [sent] = got
    assert sent["text"] == "sign asks (for anna): Sign the lease?\nhttp://here/inbox?run=r1"
    assert (sent["run"], sent["id"], sent["answer_by"], sent["form"]["type"]) == ("r1", "sign", ["anna"], "boolean")


def test_a_failure_of_the_receiver_is_tried_again_and_a_refusal_is_said(monkeypatch, caplog):
    monkeypatch.setattr("operad.server.api.hooks._PAUSES", (0.0, 0.0, 0.0))
    with receiver(503, 200) as (address, got):
        ask(address)
    assert (len(got), caplog.text) == (2, "")
    with receiver(403) as (address, got):
        ask(f"{address}/T0/secret")
    assert len(got) == 1
    assert "HTTP 403" in caplog.text
    assert "T0" not in caplog.text


@pytest.mark.parametrize("address", ["ftp://x/y", "file:///etc/passwd", "nowhere", "{{secret.NOT_THERE_AT_ALL}}"])
def test_an_address_that_cannot_be_used_is_refused(address, tmp_path, monkeypatch):
    monkeypatch.setenv("OPERAD_SECRETS", str(tmp_path / "secrets.yaml"))
    with pytest.raises(InputError):
        Hook(address, "--on-end")


def test_messages_are_signed_and_one_that_is_repeated_keeps_its_id(monkeypatch):
    secret = "whsec_" + base64.b64encode(b"0123456789abcdef").decode()
    monkeypatch.setenv(SECRET, secret)
    monkeypatch.setattr("operad.server.api.hooks._PAUSES", (0.0, 0.0, 0.0))
    signed = []
    with receiver(503, signed=signed) as (address, _):
        ask(address)
    ids = {
        delivery_id(secret, {name.lower(): value for name, value in headers.items()}, body, time.time())
        for headers, body in signed
    }
    assert (len(signed), len(ids)) == (2, 1)


@pytest.mark.parametrize(("goal", "state", "status"), [("tea", "finished", "SUCCESS"), ("", "failed", None)])
async def test_the_end_of_a_run_is_sent_without_job_and_result(goal, state, status):
    async def work(job):
        return job.goal or int("no")

    with receiver() as (address, got):
        hook = Hook(address, "--on-end")
        async with served(offered(Code(work))) as here:
            here.serving.runs.on_end = partial(send_end, hook)
            await here.http.post("/runs", json={"expert": "Expert", "goal": goal, "id": "r"})
            await here.ended("r")
        await asyncio.to_thread(hook._threads.shutdown, wait=True)
    [sent] = got
    assert (sent["run"], sent["expert"], sent["state"], sent["status"]) == ("r", "Expert", state, status)
    assert "tea" not in json.dumps(sent)


async def test_a_run_that_the_end_of_the_server_stops_sends_nothing():
    sent = []
    async with served(offered(Code(lambda job: asyncio.sleep(60)))) as here:
        here.serving.runs.on_end = sent.append
        await here.http.post("/runs", json={"expert": "Expert", "goal": "x"})
    assert sent == []
