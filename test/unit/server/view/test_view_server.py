"""The page's server: a real one on this machine, spoken to by real requests."""

import asyncio
import json
import os
import socket
import time
from contextlib import ExitStack, contextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from local_http import NO_AUTHORITIES
from studio_page import AXE, SERIOUS

from operad.runtime import BuiltinWorkflow, InputError, Job, events, interrupt
from operad.runtime.events.events_file import line_of
from operad.runtime.testing import ScriptedReasoner
from operad.runtime.values.message import NO_USAGE, Usage, WorkflowMessage
from operad.server.view import run_page, runs_page
from operad.server.view.http import MAX_BODY
from operad.server.view.runs_page import LedgerCatalog
from operad.server.view.server import PageServer, RunPage, RunsPage, show
from operad.server.view.sources import FileSource

NOBODY = ScriptedReasoner([])


def some_events(operators=2, run_id="r", tokens=1, end=True, goal="goal"):
    """The events of a run whose operators run one after another."""
    names = [f"op{number}" for number in range(operators)]
    number = 0

    def stamped(kind, name="", **values):
        nonlocal number
        number += 1
        where = {"path": (name,), "operator_id": name, "attempt": 1} if name else {}
        return kind(run_id=run_id, seq=number, time=1.7e9 + number / 10, round=1, **where, **values)

    yield stamped(events.RunStarted, workflow="w", goal=goal, operators=dict.fromkeys(names, ()))
    yield stamped(events.RoundStarted, operators=tuple(names))
    for name in names:
        yield stamped(events.OperatorStarted, name)
        yield stamped(events.ModelAsked, name, call_id=name, model="m", messages=({"role": "user", "content": "?"},))
        for _ in range(tokens):
            yield stamped(events.TokenStreamed, name, text="word ")
        yield stamped(events.ModelAnswered, name, call_id=name, model="m", usage=NO_USAGE, text="words")
        yield stamped(events.OperatorFinished, name, seconds=0.1, message=WorkflowMessage(scratchpad="words"))
    if end:
        yield stamped(events.RunFinished, message=WorkflowMessage(scratchpad="words"), seconds=1.0, rounds=1)


def write(path, happened, mode="w"):
    with path.open(mode, encoding="utf-8", errors="backslashreplace") as file:  # as operad run --events does
        file.writelines(map(line_of, happened))


class Asks:
    """An operator that asks."""

    def __init__(self, name="ask", schema=None):
        self._name, self._schema = name, schema

    def get_id(self):
        return self._name

    async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
        return f"said {await interrupt('What?', self._schema)!r}"


def asking(*operators):
    workflow = BuiltinWorkflow(name="asker")
    for operator in operators or (Asks(),):
        workflow.add_operator(operator)
    return workflow


@pytest.fixture
def open_page():
    """Serves a site until the test's end: its address."""
    with ExitStack() as stack:
        yield lambda site, **named: stack.enter_context(PageServer(site, **named)).url


@pytest.fixture
def file_page(tmp_path, open_page):
    """A page of a file of events: its address."""

    def file_page(happened=None):
        file = tmp_path / "run.jsonl"
        write(file, some_events() if happened is None else happened)
        return open_page(RunPage(FileSource(file), "run.jsonl"))

    return file_page


def get(url, **named):
    return httpx.get(url, timeout=30, trust_env=False, verify=NO_AUTHORITIES, **named)


def post(url, said, **named):
    return httpx.post(url, json=said, timeout=30, trust_env=False, verify=NO_AUTHORITIES, **named)


def eventually(look, wanted):
    """What `look` says once it is as wanted; a page follows within a fraction of a second."""
    until = time.monotonic() + 30
    while not wanted(found := look()):
        assert time.monotonic() < until, found
        time.sleep(0.02)
    return found


def picture_of(url, wanted=lambda picture: True):
    return eventually(lambda: get(f"{url}data/picture").json(), wanted)


def ended(picture):
    return picture["ended"]


@contextmanager
def following(url, since=None, **headers):
    """The stream of changes, one message after the other: its id and what it says."""
    query = "" if since is None else f"?since={since}"
    with httpx.stream(
        "GET", f"{url}data/changes{query}", headers=headers, timeout=30, trust_env=False, verify=NO_AUTHORITIES
    ) as response:
        assert response.status_code == 200, response.read()
        assert response.headers["content-type"].startswith("text/event-stream")

        def messages():
            found = ""
            for line in response.iter_lines():
                if line.startswith("id: "):
                    found = line.removeprefix("id: ")
                elif line.startswith("data: "):
                    yield found, json.loads(line.removeprefix("data: "))

        yield messages()


# A file


def test_a_file_is_shown_with_its_details(file_page):
    url = file_page()
    picture = picture_of(url, ended)
    assert (picture["run_id"], picture["goal"], picture["note"], picture["can"]) == ("r", "goal", "", [])
    assert [span["name"] for span in picture["spans"] if span["kind"] == "operator"] == ["op0", "op1"]
    model = next(span["id"] for span in picture["spans"] if span["kind"] == "model")
    assert get(f"{url}data/details?span={model}").json()[str(model)]["text"] == "words"
    every = get(f"{url}data/details").json()
    assert every[str(model)] == get(f"{url}data/details?span={model}").json()[str(model)]


def test_the_page_is_html_that_runs_its_own_scripts_alone(file_page, monkeypatch):
    monkeypatch.setattr(run_page, "page", lambda title: f"<title>{title}</title><script>let a = 1</script>")
    answer = get(file_page())
    assert answer.text == "<title>run.jsonl</title><script>let a = 1</script>"
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'sha256-" in policy
    assert "unsafe" not in policy.replace("style-src 'unsafe-inline'", "")


def test_a_file_that_is_being_written_is_followed(tmp_path, file_page):
    first, *more = some_events(end=False)
    url = file_page([first])
    with following(url, since=0) as messages:
        _, told = next(messages)
        assert [span["kind"] for span in told["spans"]] == ["run"]
        write(tmp_path / "run.jsonl", more, "a")
        _, told = next(messages)
        assert (told["version"], told["reset"]) == (1 + len(more), False)
        assert "operator" in {span["kind"] for span in told["spans"]}


def test_an_empty_file_waits_for_its_run(tmp_path, file_page):
    url = file_page([])
    os.utime(tmp_path / "run.jsonl", (0, time.time() - 3600))
    picture = picture_of(url)
    assert (picture["spans"], picture["note"]) == ([], "")
    write(tmp_path / "run.jsonl", some_events())
    assert picture_of(url, ended)["run_id"] == "r"


def test_a_line_that_is_half_written_waits_and_one_that_was_cut_off_is_told(tmp_path, file_page):
    url, file = file_page(some_events(end=False)), tmp_path / "run.jsonl"
    whole = picture_of(url, lambda picture: picture["spans"])
    with file.open("a") as writing:
        writing.write('{"event": "RunFin')
    os.utime(file, (0, time.time() - 3600))
    picture = picture_of(url, lambda picture: picture["note"])
    assert picture["note"].startswith(
        "run.jsonl ends in the middle of a line before its run does; nothing was written "
    )
    assert picture["spans"] == whole["spans"]


@pytest.mark.parametrize("in_place", [True, False])
def test_a_file_that_is_replaced_begins_anew(tmp_path, file_page, in_place):
    url, file = file_page(some_events(operators=3)), tmp_path / "run.jsonl"
    seen = picture_of(url, ended)
    with following(url, since=seen["version"]) as messages:
        next(messages)
        other = file if in_place else tmp_path / "other"
        write(other, some_events(operators=9, run_id="second"))
        other.replace(file)
        shown, anew, told = {}, False, {}
        while not (anew and told["ended"]):
            number, told = next(messages)
            anew = anew or told["reset"]
            shown = ({} if told["reset"] else shown) | {span["id"]: span for span in told["spans"]}
            assert int(number) >= seen["version"], "ids only grow, so that a browser that comes back gets what it lacks"
    assert told["run_id"] == "second"
    assert list(shown.values()) == picture_of(url)["spans"]


def test_a_line_that_is_no_event_is_told_and_what_is_before_it_is_shown(tmp_path, file_page):
    happened = list(some_events())
    url, file = file_page(happened[:4]), tmp_path / "run.jsonl"
    with file.open("a") as writing:
        writing.write("a line of another program\n")
    write(file, happened[4:], "a")
    picture = picture_of(url, lambda picture: picture["note"])
    assert "run.jsonl: line 5 is not an event" in picture["note"]
    assert (picture["version"], picture["ended"]) == (4, False)
    write(file, some_events(run_id="mended"))
    assert picture_of(url, ended)["note"] == ""


def test_a_file_that_goes_away_leaves_its_picture(tmp_path, file_page):
    url = file_page()
    picture_of(url, ended)
    (tmp_path / "run.jsonl").unlink()
    picture = picture_of(url, lambda picture: picture["note"])
    assert picture["note"].endswith("run.jsonl: cannot be read: it is gone")
    assert picture["ended"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("rum.jsonl", None, "rum.jsonl: there is no such file (did you mean 'run.jsonl'?)"),
        ("", None, "is a folder"),
        ("pipe", None, "is not a regular file"),
        ("run.jsonl", "time,level\n1,INFO\n", "run.jsonl: line 1 is not an event"),
        ("run.jsonl", '{"level": "INFO"}\n', "run.jsonl: line 1 is not an event: it has no field 'event'"),
        ("run.jsonl", '{"event": "Click"}\n' * 3, "run.jsonl: holds no known event"),
        ("run.jsonl", "[" * 100_000 + "\n", "run.jsonl: line 1 is not an event"),
        ("run.jsonl", '{"event": "RunStarted", "workflow": 3}\n', "run.jsonl: line 1 is not an event"),
    ],
)
def test_what_is_no_file_of_events_is_refused(tmp_path, name, text, message):
    (tmp_path / "run.jsonl").write_text(text or "")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError) as caught:
        FileSource(tmp_path / name)
    assert message in str(caught.value)


def test_values_that_json_lacks_and_half_characters_reach_the_browser(file_page):
    odd = '{"nan": NaN, "half": "\\ud800", "huge": 1e999, "</script>": [1]}'
    started, *rest = some_events(end=False, goal="\ud800</script>")
    task = events.TaskBuilt(run_id="r", path=("op1",), operator_id="op1", task=json.loads(odd))
    url = file_page([started, *rest[:-1], task, rest[-1]])
    picture = picture_of(url, lambda picture: picture["version"] == len(rest) + 2)
    assert picture["goal"] == "\ud800</script>"
    operator = [span["id"] for span in picture["spans"] if span["kind"] == "operator"][-1]
    assert get(f"{url}data/details?span={operator}").json()[str(operator)]["tasks"] == [
        {"nan": None, "half": "\ud800", "huge": None, "</script>": [1]}
    ]


def test_an_event_that_cannot_be_shown_hides_no_others(file_page, monkeypatch):
    taken_in = RunPage._take_in

    def too_deep(page, event):  # which event is depends on the interpreter
        if isinstance(event, events.TokenStreamed):
            raise RecursionError("maximum recursion depth exceeded")
        taken_in(page, event)

    monkeypatch.setattr(RunPage, "_take_in", too_deep)
    picture = picture_of(file_page(list(some_events())), ended)
    assert picture["note"].startswith("not all can be shown: RecursionError")
    assert [span["state"] for span in picture["spans"] if span["kind"] == "operator"] == ["done", "done"]


@pytest.mark.slow
def test_a_hundred_thousand_events_are_shown_while_they_are_read(file_page):
    happened = list(some_events(operators=300, tokens=330))
    url = file_page(happened)
    early = picture_of(url, lambda picture: picture["spans"])
    assert early["version"] <= len(happened)
    late = picture_of(url, ended)
    assert (late["version"], len(late["spans"])) == (len(happened), 602)
    assert len(happened) > 100_000


# Streams


def test_a_browser_that_comes_back_gets_what_it_lacks(tmp_path, file_page):
    first, *more = some_events(end=False)
    url = file_page([first])
    with following(url, since=0) as messages:
        number, _ = next(messages)
    write(tmp_path / "run.jsonl", more, "a")
    picture_of(url, lambda picture: picture["version"] == 1 + len(more))
    with following(url, since=0, **{"last-event-id": number}) as messages:
        number, told = next(messages)
    assert not told["reset"]
    assert {span["kind"] for span in told["spans"]} >= {"operator", "model"}
    with following(url, since=0, **{"last-event-id": number}) as messages:
        assert next(messages)[1]["spans"] == []


def test_a_version_of_another_server_begins_anew(file_page):
    url = file_page()
    picture = picture_of(url, ended)
    with following(url, since=picture["version"] + 1000) as messages:
        told = next(messages)[1]
    assert (told["reset"], told["spans"]) == (True, picture["spans"])


def test_browsers_beyond_the_bound_are_refused_and_those_that_leave_make_room(file_page, monkeypatch):
    monkeypatch.setattr(run_page, "MOST_STREAMS", 2)
    url = file_page()
    with following(url) as one, following(url) as other:
        assert next(one) == next(other)
        refused = get(f"{url}data/changes?since=0")
        assert (refused.status_code, refused.json()["error"]) == (
            503, "2 browsers follow this run already; close one",
        )  # fmt: skip

    def third():
        with httpx.stream("GET", f"{url}data/changes", trust_env=False, verify=NO_AUTHORITIES) as response:
            return response.status_code

    eventually(third, lambda status: status == 200)


def test_a_silent_stream_gives_signs_of_life(file_page, monkeypatch):
    monkeypatch.setattr(run_page, "KEEP_ALIVE", 0.01)
    url = file_page()
    picture_of(url, ended)
    with httpx.stream("GET", f"{url}data/changes", timeout=30, trust_env=False, verify=NO_AUTHORITIES) as response:
        assert any(line.startswith(":") for line in response.iter_lines())


def test_a_server_ends_at_once_with_open_streams_and_tells_them_the_last(tmp_path):
    file = tmp_path / "run.jsonl"
    first, *more = some_events()
    write(file, [first])
    with ExitStack() as streams:
        with PageServer(RunPage(FileSource(file), "t")) as server:
            messages = streams.enter_context(following(server.url))
            silent = streams.enter_context(socket.create_connection(("127.0.0.1", urlsplit(server.url).port or 0)))
            next(messages)
            write(file, more, "a")
            server.close()
        assert [told["ended"] for _, told in messages][-1]
        assert silent.recv(1) == b""
    with pytest.raises(httpx.ConnectError):
        get(server.url)


# Who may


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:1", 200),
        ("localhost", 200),
        ("localhost:9000", 200),
        ("[::1]:80", 200),
        ("attacker.example", 403),
        ("localhost.attacker.example", 403),
        ("127.0.0.1.attacker.example:8300", 403),
        ("127.0.0.1@attacker.example", 403),
        ("[::1", 403),
        ("192.168.0.7:8300", 403),
        ("", 403),
    ],
)
def test_a_name_that_was_made_to_lead_here_gets_nothing(file_page, host, status):
    url = file_page()
    answer = get(f"{url}data/picture", headers={"host": host})
    assert answer.status_code == status
    assert (status == 200) or "goal" not in answer.text


@pytest.mark.parametrize("path", ["", "data/picture", "x/data/picture", "../", "%2e%2e/", "\u00e9/", "*", "/", "%00/"])
def test_without_the_token_there_is_nothing(file_page, path):
    address = urlsplit(file_page())
    answer = get(f"http://{address.netloc}/{path}")
    assert (answer.status_code, list(answer.json())) == (404, ["error"])
    for token in (address.path[1:-2], address.path[1:-1] + "x", address.path[1:-1].swapcase()):
        assert get(f"http://{address.netloc}/{token}/data/picture").status_code == 404


def test_a_browser_without_the_token_gets_a_page(file_page):
    address = urlsplit(file_page())
    answer = get(f"http://{address.netloc}/old<b>/", headers={"accept": "text/html,*/*;q=0.8"})
    assert (answer.status_code, answer.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert "the server was restarted" in answer.text
    assert "default-src" in answer.headers["content-security-policy"]


def test_an_address_without_its_last_slash_leads_to_the_page(file_page):
    url = file_page()
    answer = get(url.rstrip("/"))
    assert (answer.status_code, answer.headers["location"]) == (307, url)


def test_tokens_differ(tmp_path):
    write(tmp_path / "run.jsonl", some_events())
    servers = [PageServer(RunPage(FileSource(tmp_path / "run.jsonl"), "t")) for _ in range(2)]
    tokens = {urlsplit(server.url).path for server in servers}
    for server in servers:
        with server:
            pass
    assert len(tokens) == 2
    assert all(len(token) >= 32 for token in tokens)


def test_every_answer_forbids_to_keep_it_and_to_guess_what_it_is(file_page):
    url = file_page()
    for each in (url, f"{url}data/picture", f"{url}nothing", f"{url.rstrip('/')}x/"):
        headers = get(each).headers
        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert "access-control-allow-origin" not in headers
        assert "server" not in headers


def raw(url, text):
    """What first comes back for these bytes."""
    with socket.create_connection(("127.0.0.1", urlsplit(url).port or 0), timeout=10) as connection:
        connection.sendall(text)
        return connection.recv(65536)


@pytest.mark.parametrize(
    "text",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: attacker.example\r\nConnection: close\r\n\r\n",
        b"GET http://attacker.example/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n",
        b"CONNECT attacker.example:80 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    ],
)
def test_what_is_no_request_for_this_page_gets_nothing(file_page, text):
    url = file_page()
    received = raw(url, text)
    assert received.split(b" ")[1][:1] == b"4"
    assert b"goal" not in received
    assert get(f"{url}data/picture").status_code == 200


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("data/changes?since=-1", 400),
        ("data/changes?since=x", 400),
        ("data/changes?since=" + "9" * 5000, 400),
        ("data/details?span=99999", 404),
        ("data/details?span=../../etc/passwd", 400),
        ("data/answer", 405),
        ("data/nothing", 404),
    ],
)
def test_a_request_that_makes_no_sense_is_told_why(file_page, path, status):
    url = file_page()
    picture_of(url, ended)
    answer = get(f"{url}{path}")
    assert (answer.status_code, list(answer.json())) == (status, ["error"])


def test_a_file_takes_no_answers(file_page):
    url = file_page()
    said = {"interrupt_id": "a", "value": 1}
    assert "takes no answers" in post(f"{url}data/answer", said).json()["error"]
    assert "cannot be cancelled" in post(f"{url}data/cancel", {}).json()["error"]


def test_a_port_in_use_is_named(tmp_path):
    write(tmp_path / "run.jsonl", some_events())
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(InputError, match=f"cannot bind port {port}: .*0 for any free port"):
            PageServer(RunPage(FileSource(tmp_path / "run.jsonl"), "t"), port)


# A run of this process


async def live(workflow, work) -> Any:
    """Runs it under a page, while `work` speaks to the page: what each came to."""
    with show(workflow) as url:

        async def run():
            return [event async for event in workflow.stream(Job(goal="go"), NOBODY)]

        running = asyncio.ensure_future(run())
        try:
            told = await asyncio.to_thread(work, url)
        except BaseException:
            running.cancel()  # it may wait for an answer that nobody gives now
            raise
        return *await asyncio.gather(running, return_exceptions=True), told


def questions(picture):
    return [span["name"] for span in picture["spans"] if span["kind"] == "question" and span["state"] == "running"]


async def test_a_question_is_answered_on_the_page():
    def work(url):
        picture = picture_of(url, questions)
        assert picture["can"] == ["answer", "cancel"]
        asked = next(span["id"] for span in picture["spans"] if span["kind"] == "question")
        assert get(f"{url}data/details?span={asked}").json()[str(asked)]["question"] == "What?"
        assert post(f"{url}data/answer", {"interrupt_id": "ask", "value": "figs"}).status_code == 200
        late = post(f"{url}data/answer", {"interrupt_id": "ask", "value": "nuts"})
        picture_of(url, ended)
        return late

    happened, late = await live(asking(), work)
    assert happened[-1].message.scratchpad == "said 'figs'"
    assert late.status_code == 409
    assert list(late.json()) == ["error"]


async def test_two_who_answer_at_once_give_one_answer():
    async def work(url):
        async with httpx.AsyncClient(timeout=30, trust_env=False, verify=NO_AUTHORITIES) as client:
            said = [{"interrupt_id": "ask", "value": number} for number in range(8)]
            answers = await asyncio.gather(*(client.post(f"{url}data/answer", json=each) for each in said))
            return [answer.status_code for answer in answers]

    def threaded(url):
        picture_of(url, questions)
        return asyncio.run(work(url))

    happened, statuses = await live(asking(), threaded)
    assert sorted(statuses) == [200, *[409] * 7]
    assert happened[-1].message.scratchpad == f"said {statuses.index(200)}"


async def test_an_answer_that_does_not_fit_is_told_why_and_the_question_stays():
    def work(url):
        picture_of(url, questions)
        wrong = post(f"{url}data/answer", {"interrupt_id": "ask", "value": "yes"})
        strange = post(f"{url}data/answer", {"interrupt_id": "asc", "value": True})
        assert questions(picture_of(url)) == ["ask"]
        post(f"{url}data/answer", {"interrupt_id": "ask", "value": True})
        return wrong.json()["error"], strange.json()["error"]

    happened, (wrong, strange) = await live(asking(Asks(schema="boolean")), work)
    assert "'yes' is not of type 'boolean'" in wrong
    assert "did you mean 'ask'?" in strange
    assert happened[-1].message.scratchpad == "said True"


async def test_metrics_of_the_run_are_beside_its_page():
    def work(url):
        picture_of(url, questions)
        return httpx.get(f"{url}metrics").text

    _, told = await live(asking(), lambda url: (work(url), post(f"{url}data/cancel", {}))[0])
    assert "operad_open_questions 1.0" in told
    assert 'operad_runs_started_total{workflow="' in told


async def test_a_run_is_cancelled_on_the_page():
    def work(url):
        picture_of(url, questions)
        assert post(f"{url}data/cancel", {}).status_code == 200
        picture = picture_of(url, ended)
        assert post(f"{url}data/cancel", {}).json() == {"error": "no run is in progress"}
        return picture

    cancelled, picture = await live(asking(), work)
    assert isinstance(cancelled, asyncio.CancelledError)
    root = picture["spans"][0]
    assert (root["state"], root["error"]) == ("stopped", "it was cancelled")
    assert not questions(picture)


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b'{"interrupt_id": "ask", "value": 1}', {"origin": "http://attacker.example"}, 403),
        (b'{"interrupt_id": "ask", "value": 1}', {"origin": "null"}, 403),
        (b'{"interrupt_id": "ask", "value": 1}', {"content-type": "text/plain"}, 415),
        (b'{"interrupt_id": "ask", "value": NaN}', {}, 400),
        (b'{"interrupt_id": "ask", "value": 1e999}', {}, 400),
        (b'{"interrupt_id": "ask", "value": ' + b"9" * 5000 + b"}", {}, 400),
        (b'{"interrupt_id": ["ask"], "value": 1}', {}, 400),
        (b'{"interrupt_id": "ask"}', {}, 400),
        (b"[" * 100_000, {}, 400),
        (b"\xff", {}, 400),
        (b"[]", {}, 400),
        (b" " * (MAX_BODY + 1), {}, 413),
    ],
)
async def test_what_is_no_answer_is_refused(body, headers, status):
    def work(url):
        picture_of(url, questions)
        sent = {"content-type": "application/json", **headers}
        answer = httpx.post(f"{url}data/answer", content=body, headers=sent, trust_env=False, verify=NO_AUTHORITIES)
        own = f"http://{urlsplit(url).netloc}"
        post(f"{url}data/answer", {"interrupt_id": "ask", "value": "end"}, headers={"origin": own})
        return answer.status_code, list(answer.json())

    happened, found = await live(asking(), work)
    assert found == (status, ["error"])
    assert happened[-1].message.scratchpad == "said 'end'"


def test_runs_without_an_event_loop_of_ones_own_are_shown_one_after_another():
    workflow = BuiltinWorkflow(name="twice")

    class Says(Asks):
        async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
            return job.goal

    workflow.add_operator(Says("say"))
    with show(workflow) as url:
        workflow.execute(Job(goal="first"), NOBODY)
        assert picture_of(url, ended)["goal"] == "first"
        with following(url, since=picture_of(url)["version"]) as messages:
            next(messages)
            workflow.execute(Job(goal="second"), NOBODY)
            told = next(told for _, told in messages if told["ended"])
    assert (told["goal"], told["reset"]) == ("second", True)
    assert workflow.execute(Job(goal="third"), NOBODY).scratchpad == "third"


# Runs of a database


class Kept:
    """What the page wants of a kept run."""

    def __init__(self, run_id, state="running", driver="d", **more):
        self.run_id, self.workflow, self.state, self.driver = run_id, "<b>w</b>", state, driver
        self.done, self.total, self.created, self.updated, self.drives = 1, 2, 1.7e9, 1.0, 1
        self.usage, self.verdict, self.error, self.origin = "", "", "", ""
        vars(self).update(more)


class Kepts:
    """A stand-in for a ledger: runs with their events."""

    def __init__(self, **kept):
        self.kept, self.said = {name: (run, list(happened)) for name, (run, happened) in kept.items()}, []
        self.rewritten = False

    def alive(self):
        return {"d"}

    def runs(self, limit):
        return [run for run, _ in self.kept.values()]

    def run(self, run_id):
        if run_id not in self.kept:
            raise InputError(f"no run has the id {run_id!r}")
        return self.kept[run_id][0]

    def events(self, run_id):
        return self.kept[run_id][1]

    def events_after(self, run_id, part):
        events = self.kept[run_id][1]
        known = 0 if self.rewritten else part  # as a new part, with all events
        return events[known:], len(events)

    def answer(self, run_id, answers, by):
        self.said.append((run_id, answers))

    def cancel(self, run_id):
        self.said.append((run_id, "cancelled"))


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    monkeypatch.setattr("operad.server.view.sources.POLL", 0.05)


def test_kept_runs_are_listed_and_each_has_its_page(open_page):
    gone = Kept("gone-1", driver="dead")
    ledger: Any = Kepts(**{"a-1": (Kept("a-1"), some_events(end=False)), "gone-1": (gone, some_events(end=False))})
    url = open_page(RunsPage(LedgerCatalog(ledger), "runs in <db>"))
    html = get(url).text
    assert '<h1 dir="auto">runs in &lt;db&gt;</h1>' in html
    assert "<b>w</b>" not in html
    assert [run["state"] for run in get(f"{url}data/runs").json()] == ["running", "interrupted"]
    assert get(f"{url}runs/a-1/").status_code == 200
    assert picture_of(f"{url}runs/a-1/", lambda picture: picture["spans"])["note"] == ""
    assert "operad runs resume gone-1" in picture_of(f"{url}runs/gone-1/", lambda picture: picture["note"])["note"]
    answer = get(f"{url}runs/b-1/data/picture")
    assert (answer.status_code, answer.json()["error"]) == (404, "no run has the id 'b-1'")


def test_a_kept_run_is_followed_answered_and_cancelled(open_page):
    run, happened = Kept("a"), list(some_events(run_id="a"))
    ledger: Any = Kepts(a=(run, happened[:3]))
    url = f"{open_page(RunsPage(LedgerCatalog(ledger), 't'))}runs/a/"
    with following(url, since=0) as messages:
        assert next(told for _, told in messages if told["spans"])["version"] == 3
        assert post(f"{url}data/answer", {"interrupt_id": "q", "value": 1}).status_code == 200
        assert post(f"{url}data/cancel", {}).status_code == 200
        ledger.kept["a"] = (run, happened[:5])
        run.updated = 2.0
        assert next(messages)[1]["version"] == 5
        ledger.kept["a"], ledger.rewritten = (run, [happened[0], *happened[2:]]), True  # some were dropped
        run.updated = 3.0
        told = next(told for _, told in messages if told["ended"])
    assert told["reset"]
    assert ledger.said == [("a", {"q": 1}), ("a", "cancelled")]


def test_a_database_that_does_not_answer_is_told_and_asked_again(open_page, monkeypatch):
    ledger: Any = Kepts(a=(Kept("a"), some_events(run_id="a", end=False)))
    url = f"{open_page(RunsPage(LedgerCatalog(ledger), 't'))}runs/a/"
    picture_of(url, lambda picture: picture["spans"])

    def gone():
        raise InputError("the database is gone")

    with monkeypatch.context() as away:
        away.setattr(ledger, "alive", gone)
        assert picture_of(url, lambda picture: picture["note"])["note"] == "the database is gone"
    assert picture_of(url, lambda picture: not picture["note"])["spans"]


def test_runs_that_nobody_follows_any_more_make_room(open_page, monkeypatch):
    monkeypatch.setattr(runs_page, "MOST_RUNS", 2)
    ledger: Any = Kepts(**{name: (Kept(name), some_events(run_id=name)) for name in "abcde"})
    site = RunsPage(LedgerCatalog(ledger), "t")
    url = open_page(site)
    with following(f"{url}runs/a/") as messages:
        next(messages)
        for name in "bcde":
            assert picture_of(f"{url}runs/{name}/", ended)["run_id"] == name
        assert [name for name, _ in site._followed] == ["a", "e"]  # pyright: ignore
        assert picture_of(f"{url}runs/b/", ended)["run_id"] == "b"


def test_up_to_so_many_runs_none_makes_room(open_page):
    ledger: Any = Kepts(**{name: (Kept(name), some_events(run_id=name)) for name in "abcdef"})
    site = RunsPage(LedgerCatalog(ledger), "t")
    url = open_page(site)
    for name in "abcdef":
        assert picture_of(f"{url}runs/{name}/", ended)["run_id"] == name
    assert [name for name, _ in site._followed] == list("abcdef")  # pyright: ignore


# With a browser


async def test_a_browser_shows_the_page_and_asks_nobody_else(file_page, chromium):
    from playwright.async_api import async_playwright

    url, answered, asked = file_page(), {}, set()
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        view = await browser.new_page()
        view.on("response", lambda response: answered.update({response.url: response.status}))
        view.on("request", lambda request: asked.add(urlsplit(request.url).netloc))
        await view.goto(url)
        for _ in range(300):
            if f"{url}data/picture" in answered:
                break
            await asyncio.sleep(0.1)
        await browser.close()
    assert answered[f"{url}data/picture"] == 200
    assert asked == {urlsplit(url).netloc}


@pytest.mark.slow
async def test_runs_are_listed_filtered_and_sorted_in_a_browser(open_page, chromium):
    from playwright.async_api import async_playwright

    usage = Usage(calls=3, cost=0.02).model_dump_json()
    runs = (
        Kept("r-1", "finished", "", workflow="letters", verdict="SUCCESS", usage=usage, created=time.time(), done=2),
        Kept("r-2", "failed", "", workflow="letters", error="no <b>key</b>\nsecond", created=time.time() - 5 * 86400),
        Kept(
            "r-3", "finished", "", workflow="<i>brief</i>", verdict="EXECUTION_ERROR", created=time.time() - 60 * 86400
        ),
    )
    url = open_page(RunsPage(LedgerCatalog(Kepts(**{run.run_id: (run, ()) for run in runs})), "runs in db"))  # pyright: ignore
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        context = await browser.new_context(bypass_csp=True)
        view = await context.new_page()
        faults = list[str]()
        view.on("pageerror", lambda error: faults.append(str(error)))
        await view.goto(url)

        async def listed():
            return await view.locator("tbody tr td:nth-child(3)").all_inner_texts()

        assert await listed() == ["r-1", "r-2", "r-3"]
        cells = await view.locator("tbody tr").first.locator("td").all_inner_texts()
        assert (cells[0].strip(), cells[5:]) == ("done", ["2 of 2", "0.02 USD", "accepted"])
        assert (await view.locator("tbody tr").nth(1).inner_text()).endswith("no <b>key</b>")
        found = dict[str, list[str]]()
        for label, value in (
            ("Status", "failed"),
            ("Workflow", "BRIEF"),
            ("Started", "604800"),
            ("Cost at least", "0.01"),
            ("Verdict", "accepted"),
        ):
            control = view.get_by_label(label, exact=True)
            is_choice = await control.evaluate("each => each.tagName === 'SELECT'")
            await (control.select_option(value) if is_choice else control.fill(value))
            found[label] = await listed()
            await view.get_by_role("button", name="Clear").click()
        assert found == {
            "Status": ["r-2"], "Workflow": ["r-3"], "Started": ["r-1", "r-2"], "Cost at least": ["r-1"], "Verdict": ["r-1"],
        }  # fmt: skip
        await view.get_by_role("button", name="Workflow").click()
        assert await listed() == ["r-3", "r-1", "r-2"]
        await view.get_by_label("Status", exact=True).select_option("finished")
        await view.reload()
        assert await listed() == ["r-3", "r-1"]
        if AXE.exists():
            for scheme in ("light", "dark"):
                await view.emulate_media(color_scheme=scheme)
                await view.evaluate(AXE.read_text(encoding="utf-8"))
                assert await view.evaluate(SERIOUS) == []
        await browser.close()
    assert faults == []
