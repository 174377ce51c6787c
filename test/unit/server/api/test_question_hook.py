"""Webhook of questions: each is sent once, in a form that Slack takes, and a failure is said without the address."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from operad.runtime import InputError, Workflow, interrupt, operator
from operad.server.api.question_hook import QuestionHook


@contextmanager
def receiver(*statuses):
    """A server that answers with these statuses; yields its address and the bodies that it got."""
    got, answers = [], list(statuses)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            got.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
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


def ask(hook):
    """Run a workflow that asks, and wait until the question is sent."""
    flow = Workflow(sign, name="lease")
    flow.add_listener(hook)
    with pytest.raises(Exception, match="Sign the lease"):
        flow.run("it", run_id="r1")
    hook._threads.shutdown(wait=True)


def test_a_question_is_sent_with_its_text_its_people_and_a_link():
    with receiver() as (address, got):
        ask(QuestionHook(address, "http://here/inbox"))
    [sent] = got
    assert sent["text"] == "sign asks (for anna): Sign the lease?\nhttp://here/inbox?run=r1"
    assert (sent["run"], sent["id"], sent["answer_by"], sent["form"]["type"]) == ("r1", "sign", ["anna"], "boolean")


def test_a_failure_of_the_receiver_is_tried_again_and_a_refusal_is_said(monkeypatch, caplog):
    monkeypatch.setattr("operad.server.api.question_hook._PAUSES", (0.0, 0.0, 0.0))
    with receiver(503, 200) as (address, got):
        ask(QuestionHook(address))
    assert (len(got), caplog.text) == (2, "")
    with receiver(403) as (address, got):
        ask(QuestionHook(f"{address}/T0/secret"))
    assert len(got) == 1
    assert "HTTP 403" in caplog.text
    assert "T0" not in caplog.text


@pytest.mark.parametrize("address", ["ftp://x/y", "file:///etc/passwd", "nowhere", "{{secret.NOT_THERE_AT_ALL}}"])
def test_an_address_that_cannot_be_used_is_refused(address, tmp_path, monkeypatch):
    monkeypatch.setenv("OPERAD_SECRETS", str(tmp_path / "secrets.yaml"))
    with pytest.raises(InputError):
        QuestionHook(address)
