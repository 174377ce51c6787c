"""Snippets that import packages which the user named run in a limited process."""

import json
import sqlite3
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from tempfile import gettempdir

import pytest

from operad.operators.sandbox.code import CodeError, CodeLimits, call_code, check_code
from operad.operators.services import Services
from operad.operators.web.fetch import Fetched, Guard
from operad.runtime.barrier import missing

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


PLACED = CodeLimits(seconds=20, packages=("yaml", "numpy", "pandas", "sqlite3", "gc"))

confined = pytest.mark.skipif(bool(missing()), reason=f"no barrier here: it lacks {'; '.join(missing())}")


@pytest.mark.parametrize(
    "body",
    [
        "child = sys.modules['__main__']\nchild._FORBIDDEN_EVENTS = child._FILE_EVENTS = child._READ_EVENTS = ()",
        "builtins.isinstance = lambda *_: False\nbuiltins.PermissionError = builtins.str = print",
        "try:\n    open('/etc/passwd')\nexcept PermissionError as error:\n    last = error.__traceback__\n"
        "    while last.tb_next:\n        last = last.tb_next\n"
        "    inner = last.tb_frame.f_locals\n    inner['forbidden'] = inner['of_files'] = ()\n"
        "    last.tb_frame.f_globals['_FORBIDDEN_EVENTS'] = ()\n    last.tb_frame.f_builtins['isinstance'] = print",
    ],
    ids=["names", "builtins", "traceback"],
)
async def test_a_snippet_does_not_reach_its_audit_hook(body):
    program = (
        f"import builtins, os, sys\nstart, kept = os.system, dict(vars(builtins))\n{body}\n"
        "try:\n    start('true')\nfinally:\n    vars(builtins).update(kept)"
    )
    assert "may not use os.system" in await failure(snippet(program, imports="import yaml"), PLACED)


async def test_a_snippet_does_not_search_the_memory_for_its_audit_hook():
    for name in ("get_objects()", "get_referrers(main)", "get_referents(main)"):
        assert "may not use gc." in await failure(snippet(f"gc.{name}", imports="import gc"), PLACED)


async def test_a_snippet_does_not_mislead_its_audit_hook_about_a_file():
    body = "import os\nos.fspath = os.path.realpath = os.path.abspath = lambda *_: os.devnull\nopen('/etc/passwd')"
    assert "reads files of its own folder" in await failure(snippet(body))


@confined
async def test_the_kernel_refuses_programs_of_which_no_audit_event_tells():
    body = "import sys, subprocess\nsys.audit = print\nreturn {'r': subprocess.run(['id'], capture_output=True).stdout}"
    text = await failure(snippet(body, imports="import yaml"), PLACED)
    assert "PermissionError: [Errno 1] Operation not permitted" in text


@confined
async def test_the_kernel_refuses_files_that_a_library_opens_by_itself(tmp_path):
    path = tmp_path / "mine.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("pragma user_version = 7")
    body = f"return {{'r': sqlite3.connect('file:{path}?mode=ro', uri=True).execute('pragma user_version').fetchall()}}"
    assert "unable to open database file" in await failure(snippet(body, imports="import sqlite3"), PLACED)


async def test_packages_with_native_code_compute():
    body = (
        "frame = pandas.DataFrame({'a': numpy.arange(5)})\nreturn {'r': int(frame.a.sum()), 's': yaml.safe_load('[1]')}"
    )
    code = snippet(body, imports="import numpy, pandas, yaml")
    assert await call_code(code, {}, replace(PLACED, memory_bytes=2**30)) == {"r": 10, "s": [1]}


async def test_an_async_main_runs():
    code = "import zipfile, asyncio\nasync def main():\n    await asyncio.sleep(0)\n    return {'r': 1}"
    assert await call_code(code, {}, NAMED) == {"r": 1}


@pytest.mark.slow
async def test_files_that_fill_the_disk_end_it():
    written = "for number in range(1000):\n    open(str(number), 'wb').write(bytes(60_000_000))"
    assert "more than 268,435,456 bytes" in await failure(snippet(written))
    kept = "kept = []\nfor number in range(9):\n    kept.append(open('a', 'wb'))\n    os.unlink('a')\n    kept[-1].write(bytes(60_000_000))\ntime.sleep(20)"
    assert "more than 268,435,456 bytes" in await failure(snippet(f"import os, time\n{kept}"))
    many = "for number in range(5000):\n    open(str(number), 'w').close()\ntime.sleep(20)"
    assert "more than 4,096 files" in await failure(snippet(f"import time\n{many}"))


async def test_its_folder_is_removed_however_deep_it_is():
    body = "import os\nhere = os.getcwd()\nfor _ in range(1500):\n    os.mkdir('d')\n    os.chdir('d')\nopen('f', 'w').close()\nreturn {'r': here}"
    folder = Path((await call_code(snippet(body), {}, NAMED))["r"])
    assert folder.parent == Path(gettempdir()).resolve()
    assert not folder.exists()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("'[' * 100_000", "prevented the sandbox from reading the result"),
        ("'5'", "prevented the sandbox from reading the result"),
        ("'[]'", "prevented the sandbox from reading the result"),
        ("json.dumps({'text': 5, 'kind': 'x'})", "prevented the sandbox from reading the result"),
        ("json.dumps({'error': [1], 'line': True})", "the snippet failed: [1]"),
        ("'x'", "output_chars"),
    ],
)
async def test_a_snippet_that_answers_in_place_of_its_process_is_an_error(line, message):
    body = f"""import json, sys, time
frame = sys._getframe()
while 'output' not in frame.f_locals:
    frame = frame.f_back
frame.f_locals['output'].write({line} + '\\n')
time.sleep(20)"""
    assert message in await failure(snippet(body))


async def test_requests_do_not_extend_the_time_of_a_snippet():
    async def send(method, url, headers, body):
        return Fetched(200, url, {}, b"")

    body = "import time\nfor _ in range(50):\n    requests.get('http://x/')\n    time.sleep(0.4)"
    code = snippet(body, imports="import requests")
    with pytest.raises(CodeError, match="the limit seconds"):
        await call_code(code, {}, replace(NAMED, seconds=1), send)


async def test_an_answer_that_a_snippet_does_not_read_does_not_hold_up_its_caller():
    async def send(method, url, headers, body):
        return Fetched(200, url, {}, bytes(1_000_000))

    body = """import json, sys, time
frame = sys._getframe()
while 'output' not in frame.f_locals:
    frame = frame.f_back
frame.f_locals['output'].write(json.dumps({"fetch": {"method": "GET", "url": "", "headers": {}, "body": None}}) + '\\n')
time.sleep(60)"""
    with pytest.raises(CodeError, match="the limit seconds"):
        await call_code(snippet(body), {}, replace(NAMED, seconds=1), send)
