"""Snippets that import packages which the user named run in a limited process."""

import json
import sys
from dataclasses import replace

import pytest

from operad.operators.sandbox.code import CodeError, CodeLimits, call_code, check_code
from operad.operators.services import Services
from operad.operators.web.fetch import Fetched, Guard

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows cannot limit a process this way")

NAMED = CodeLimits(seconds=20, packages=("tomli_of_nobody", "requests", "urllib", "zipfile", "socket", "subprocess"))


def snippet(body, takes="", imports="import zipfile"):
    return f"{imports}\ndef main({takes}):\n" + "\n".join(f"    {line}" for line in body.split("\n"))


async def failure(code, limits=NAMED):
    with pytest.raises(CodeError) as caught:
        await call_code(code, {}, limits)
    return str(caught.value)


async def test_a_package_that_is_not_named_is_refused_and_one_that_is_runs():
    code = snippet("return {'r': zipfile.is_zipfile('x'), 'n': n}", "n")
    assert [issue.message.partition(":")[0] for issue in check_code(code)] == ["import zipfile"]
    assert check_code(code, NAMED) == []
    assert await call_code(code, {"n": "é"}, NAMED) == {"r": False, "n": "é"}


async def test_all_of_python_is_there():
    body = "def up():\n    yield from range(3)\nclass E(ValueError): pass\ntry:\n    raise E()\nexcept ValueError:\n    return {'r': list(up())}"
    assert await call_code(snippet(body), {}, NAMED) == {"r": [0, 1, 2]}


async def test_an_error_says_its_line_and_a_print_says_nothing():
    text = await failure(snippet("print('x')\nreturn {'r': 1 / 0}"))
    assert text == "the snippet failed at line 4, `return {'r': 1 / 0}`: ZeroDivisionError: division by zero"
    assert "No module named 'tomli_of_nobody'" in await failure(snippet("return {}", imports="import tomli_of_nobody"))
    assert "main returned a list, not a dict" in await failure(snippet("return []"))
    assert "a value that JSON cannot represent" in await failure(snippet("return {'a': {1}}"))


async def test_its_limits_end_it():
    assert "the limit seconds" in await failure(snippet("while True: pass"), replace(NAMED, seconds=1))
    assert "MemoryError" in await failure(snippet("return {'r': 'x' * 10**10}"))
    assert "output_chars" in await failure(snippet("return {'r': 'x' * 9000000}"))


async def test_it_has_no_environment_and_its_own_folder_alone(monkeypatch, tmp_path):
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    (tmp_path / "mine").write_text("secret")
    assert await call_code(snippet("import os\nreturn {'r': os.environ.get('OPENAI_API_KEY')}"), {}, NAMED) == {
        "r": None
    }
    body = "open('a.txt', 'w').write('kept')\nreturn {'r': open('a.txt').read()}"
    assert await call_code(snippet(body), {}, NAMED) == {"r": "kept"}
    assert "reads files of its own folder" in await failure(snippet(f"open({str(tmp_path / 'mine')!r})"))
    assert "writes in its own folder" in await failure(snippet(f"open({str(tmp_path / 'new')!r}, 'w')"))
    assert "may not use" in await failure(snippet("import subprocess\nsubprocess.run(['ls'])"))
    assert "may not use" in await failure(snippet("import socket\nsocket.create_connection(('127.0.0.1', 80))"))


async def test_requests_go_through_the_guard():
    asked = []

    async def send(method, url, headers, body):
        asked.append((method, url, json.loads(body)))
        return Fetched(200, url, {"content-type": "application/json"}, b'{"a": 1}')

    body = "answer = requests.post('http://intranet/x', json={'q': 1})\nreturn {'r': answer.json(), 's': answer.status_code}"
    code = snippet(body, imports="import requests")
    assert await call_code(code, {}, NAMED, send) == {"r": {"a": 1}, "s": 200}
    assert asked == [("POST", "http://intranet/x", {"q": 1})]
    opened = snippet(
        "return {'r': urllib.request.urlopen('http://x/').read().decode()}", imports="import urllib.request"
    )

    async def page(method, url, headers, body):
        return Fetched(200, url, {}, b"hello")

    assert await call_code(opened, {}, NAMED, page) == {"r": "hello"}


async def test_the_guard_of_the_services_refuses_this_machine():
    code = snippet("requests.get('http://127.0.0.1:9/')", imports="import requests")
    with pytest.raises(CodeError, match=r"may not be fetched: .*Loopback"):
        await call_code(code, {}, NAMED, Services(guard=Guard()).send_for_code)
