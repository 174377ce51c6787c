import asyncio
import json
import os
import select
import signal
import sys
import threading
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import suppress
from socket import MSG_DONTWAIT, send_fds, socketpair
from typing import Any

import pytest

from operad.runtime import InputError, Job, OperatorError, OperatorTimeoutError, Policy, Timeout, Workflow, operator
from operad.runtime.knowledge import reader_process
from operad.runtime.knowledge.reader_process import ReadingLimits, read
from operad.runtime.values.errors import MissingExtraError, OperadError
from operad.runtime.values.function_threads import in_function_thread

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows does not fork")
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="a matter of Linux")

FOREVER = ReadingLimits(seconds=100_000)
ENDLESS = b"__import__('time').sleep(10**6)"

SLEEP = "__import__('time').sleep(10**6)"
SOCKET = """__import__('socket').socket(fileno=next(n for n in range(3, 100)
    if __import__('os').path.exists(f'/proc/self/fd/{n}')
    and __import__('stat').S_ISSOCK(__import__('os').fstat(n).st_mode)))"""


def answer(code: Any, answer: Any = str, **limits: Any) -> Any:
    """The answer of a reader that does what a hostile document made of it: any code."""
    return read(
        eval,
        code if isinstance(code, bytes) else code.encode(),
        answer=answer,
        what="file",
        limits=ReadingLimits(**limits),
    )


def the_server() -> Any:
    return reader_process._server


def endless():
    return read(eval, ENDLESS, answer=str, what="file", limits=FOREVER)


def test_a_reader_answers_with_the_value_of_its_function():
    assert answer("'figs' * 3") == "figsfigsfigs"
    assert answer("[1, {'a': None}]", list[object]) == [1, {"a": None}]
    assert read(len, b"abc", answer=int, what="file") == 3
    assert read(len, b"", answer=int, what="file") == 0
    assert read(len, bytes(2**25), answer=int, what="file") == 2**25


def test_half_a_surrogate_pair_is_replaced():
    assert answer(r"'\ud800x'") == "?x"


@pytest.mark.parametrize(
    ("code", "limits", "message"),
    [
        ("sum(iter(int, 1))", {"seconds": 1}, r"takes more than the maximum of 1 s of computing time to read; save it anew"),
        ("bytes(2**30)", {"memory_bytes": 2**25}, r"takes more than the maximum of 33,554,432 bytes of memory to read; save"),
        ("'x' * 10_000", {"answer_bytes": 9_999}, r"holds a text of more than the maximum of 9,999 bytes; split it"),
        ("(lambda f: f(f))(lambda f: f(f))", {}, r"nests its elements too deep to be read"),
        ("__import__('os').kill(__import__('os').getpid(), 11)", {}, r"made its reader fail \(SIGSEGV\): it is broken, or"),
        ("__import__('os')._exit(0)", {}, r"made its reader fail: it is broken, or takes more than"),
        ("1 / 0", {}, r"cannot be read as a file: ZeroDivisionError: division by zero"),
        ("7", {}, r"cannot be read as a file: its reader gave no valid answer; save it anew"),
        (f"[{SOCKET}.send(bytes(8)), {SLEEP}]", {}, r"made its reader fail: it is broken, or takes more than"),
    ],
)  # fmt: skip
@on_linux
def test_a_reader_that_reaches_a_limit_or_fails_is_an_error_that_says_so(code, limits, message):
    with pytest.raises(InputError, match=message):
        answer(code, **limits)
    assert answer("'next'") == "next"


def test_an_error_of_a_reader_is_the_error_of_the_caller():
    errors = "__import__('operad.runtime.values.errors', fromlist=['x'])"
    with pytest.raises(MissingExtraError, match=r"^no figs$"):
        answer(f"(_ for _ in ()).throw({errors}.MissingExtraError('no figs'))")
    with pytest.raises(InputError, match=r"^no figs$"):
        answer(f"(_ for _ in ()).throw({errors}.InputError('no figs'))")


@pytest.mark.parametrize(
    "code",
    [
        f"open({__file__!r}).read()",
        "open('/etc/passwd').read()",
        "open('/tmp/figs', 'w').close()",
        "__import__('socket').socket()",
        "__import__('os').fork()",
        "__import__('os').execv('/bin/true', ['true'])",
        "__import__('os').kill(__import__('os').getppid(), 9)",
        "__import__('resource').setrlimit(0, (10**6, 10**6))",
    ],
)
@on_linux
def test_a_reader_reaches_no_files_network_or_processes(code):
    with pytest.raises(InputError, match=r"PermissionError|not allowed|Operation not permitted|made its reader fail"):
        answer(code, object)


def test_a_reader_has_no_variables_of_the_user(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-figs")
    names = {"OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "LC_CTYPE", "__CF_USER_TEXT_ENCODING"}
    assert set(answer("dict(__import__('os').environ)", dict)) <= names


OPEN = """(lambda poll: ([poll.register(n) for n in range(100)],
    100 - sum(event == 32 for _, event in poll.poll(0)))[1])(__import__('select').poll())"""


async def test_a_reader_has_no_sockets_of_other_documents():
    others = [asyncio.ensure_future(in_function_thread("it", endless)) for _ in range(3)]
    await asyncio.to_thread(answer, "'figs'")  # the others have begun
    assert await asyncio.to_thread(answer, OPEN, int) == 5  # the standard streams, its own socket, and its pipe
    for other in others:
        other.cancel()
    await asyncio.gather(*others, return_exceptions=True)


def test_documents_are_read_in_several_threads():
    with ThreadPoolExecutor(16) as threads:
        assert list(threads.map(lambda n: answer(f"'{n}'"), range(50))) == [str(n) for n in range(50)]


async def test_a_cancelled_caller_ends_its_reader():
    for _ in range(3):
        calls = [asyncio.ensure_future(in_function_thread("it", endless)) for _ in range(3)]
        await asyncio.to_thread(answer, "'figs'")  # there are four readers at once
        for call in calls:
            call.cancel()
        assert [type(ended) for ended in await asyncio.gather(*calls, return_exceptions=True)] == [
            asyncio.CancelledError
        ] * 3
    assert await asyncio.to_thread(answer, "'figs'") == "figs"


async def test_the_timeout_of_an_operator_ends_its_reader():
    errors = []

    @operator(policy=Policy(timeout=Timeout(run=0.05)))
    def hostile(job: Job) -> str:
        try:
            return endless()
        except CancelledError as error:
            errors.append(str(error))
            raise

    for _ in range(5):  # more than there are readers at once
        with pytest.raises(OperatorError) as raised:
            await Workflow(hostile).arun("read")
        assert isinstance(raised.value.__cause__, OperatorTimeoutError)
    assert await asyncio.to_thread(answer, "'figs'") == "figs"
    assert errors == ["reading the document was given up"] * 5


def test_an_interrupted_caller_ends_its_reader():
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    for _ in range(5):  # more than there are readers at once
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(KeyboardInterrupt):
            endless()
    signal.signal(signal.SIGALRM, before)
    assert answer("'figs'") == "figs"


async def test_a_caller_that_waits_for_its_turn_can_be_given_up(monkeypatch):
    asked, ended = threading.Event(), threading.Event()

    class Asked(reader_process._Server):
        def place(self, is_cancelled):
            return super().place(lambda: asked.set() or is_cancelled())

    def waits():
        try:
            endless()
        finally:
            ended.set()

    monkeypatch.setattr(reader_process, "_server", server := Asked())
    others = [asyncio.ensure_future(in_function_thread("it", endless)) for _ in range(reader_process.MOST_READERS)]
    while server._free:
        await asyncio.sleep(0)
    asked.clear()
    waiting = asyncio.ensure_future(in_function_thread("it", waits))
    await asyncio.to_thread(asked.wait)
    waiting.cancel()
    assert await asyncio.to_thread(ended.wait, 60)
    for call in others:
        call.cancel()
    given_up = await asyncio.gather(waiting, *others, return_exceptions=True)
    assert [type(each) for each in given_up] == [asyncio.CancelledError] * 5
    assert await asyncio.to_thread(answer, "'figs'") == "figs"
    server.end()


def test_a_document_that_hangs_up_ends_no_other():
    before = answer("__import__('os').getppid()", int)
    with pytest.raises(InputError, match="made its reader fail"):
        answer(f"[{SOCKET}.shutdown(2), {SLEEP}]")
    assert answer("__import__('os').getppid()", int) == before


def test_a_server_that_was_ended_is_started_again():
    os.kill(answer("__import__('os').getppid()", int), signal.SIGKILL)
    assert answer("'figs'") == "figs"


@pytest.fixture
def executable(monkeypatch):
    """Sets the interpreter of a new server."""
    server = reader_process._Server()
    monkeypatch.setattr(reader_process, "_server", server)
    yield lambda path: monkeypatch.setattr(sys, "executable", path)
    server.end()


def test_a_server_that_ends_again_and_again_is_an_error(executable):
    executable("/bin/false")
    with pytest.raises(OperadError, match="the process that reads documents ends again and again"):
        answer("'figs'")


def test_a_server_that_cannot_be_started_is_an_error(executable):
    executable("/no/such/python")
    with pytest.raises(OperadError, match=r"the process that reads documents cannot be started: .*No such file"):
        answer("'figs'")


@pytest.fixture
def stopped(executable):
    """The socket of a server that is stopped."""
    os.kill(answer("__import__('os').getppid()", int), signal.SIGSTOP)
    return reader_process._server._control


@on_linux
def test_a_server_that_takes_no_requests_is_replaced(stopped):
    with suppress(BlockingIOError):
        while True:
            stopped.send(b"figs", MSG_DONTWAIT)
    assert answer("'figs'") == "figs"


@on_linux
def test_a_reader_has_no_socket_of_a_document_that_was_just_given_up(stopped):
    def ask(code):
        """Ask for a reader of a document; return the socket for its answer."""
        ours, theirs = socketpair()
        request = {
            "function": "builtins:eval",
            "modules": [],
            "arguments": [],
            "size": len(code),
            "seconds": 9,
            "most_seconds": 99,
            "memory_bytes": 2**30,
        }
        with theirs:
            send_fds(stopped, [json.dumps(request).encode()], [theirs.fileno()])
        ours.sendall(code)
        return ours

    # The server takes one request in each round: it starts a reader, gives it up, and starts another, before it can see
    # that the first has ended.
    ask(ENDLESS).close()
    stopped.send(b"without a socket")
    with ask(OPEN.encode()) as asked:
        os.kill(the_server()._process.pid, signal.SIGCONT)
        said = b"".join(iter(lambda: asked.recv(10_000), b""))
    assert b'{"value": 5}' in said  # the standard streams, its own socket, and its pipe


@on_linux
def test_a_server_that_does_not_answer_is_replaced(stopped, monkeypatch):
    monkeypatch.setattr(reader_process, "TIMES_SECONDS", 0)
    monkeypatch.setattr(reader_process, "GRACE_SECONDS", 0.01)
    with pytest.raises(OperadError, match="the process that reads documents does not answer, and was ended"):
        answer("'figs'")
    monkeypatch.undo()
    assert answer("'figs'") == "figs"


async def test_a_caller_of_a_server_that_does_not_answer_can_be_given_up(stopped):
    calls = [asyncio.ensure_future(in_function_thread("it", endless)) for _ in range(6)]
    await asyncio.sleep(0)
    for call in calls:
        call.cancel()
    assert {type(each) for each in await asyncio.gather(*calls, return_exceptions=True)} == {asyncio.CancelledError}
    assert reader_process._server._free == reader_process.MOST_READERS


@pytest.mark.parametrize("request_", [b"figs", b"{}", b'{"function": 1}', b"[" * 1_999])
def test_a_malformed_request_is_an_error_and_ends_no_server(request_):
    server = answer("__import__('os').getppid()", int)
    ours, theirs = socketpair()
    with ours:
        with theirs:
            send_fds(the_server()._control, [request_], [theirs.fileno()])
        said = b"".join(iter(lambda: ours.recv(10_000), b""))
    assert b"cannot start a reader: " in said
    the_server()._control.send(b"without a socket")
    assert answer("__import__('os').getppid()", int) == server


@on_linux
def test_a_reader_that_cannot_be_started_is_an_error_of_the_system(executable):
    import resource

    server = answer("__import__('os').getppid()", int)
    now = len(os.listdir(f"/proc/{server}/fd"))
    _, most = resource.prlimit(server, resource.RLIMIT_NOFILE)
    resource.prlimit(server, resource.RLIMIT_NOFILE, (now + 1, most))
    with pytest.raises(
        OperadError, match=r"^the process that reads documents cannot start a reader: .*Too many open"
    ) as e:
        answer("'figs'")
    assert not isinstance(e.value, InputError)
    resource.prlimit(server, resource.RLIMIT_NOFILE, (most, most))
    assert answer("__import__('os').getppid()", int) == server


@pytest.fixture
def module(tmp_path, monkeypatch, executable):
    """Writes a module of a reader, and returns what reading a document with it gives."""
    monkeypatch.syspath_prepend(tmp_path)

    def reading(source: str, document: bytes = b"'figs'") -> object:
        (tmp_path / "fig_reader.py").write_text(source)
        return read(eval, document, answer=str, what="file", modules=["fig_reader"])

    return reading


@pytest.mark.parametrize("error", ["RuntimeError('it has 2 threads')", "OSError('it has 2 threads')"])
def test_a_process_that_cannot_be_confined_is_not_blamed_on_the_document(module, error):
    with pytest.raises(OperadError, match=r"^the process that reads documents cannot be confined: .*it has 2 thr") as e:
        module(f"import __main__\ndef confine(**_):\n    raise {error}\n__main__.confine = confine")
    assert not isinstance(e.value, InputError)


def test_a_module_that_cannot_be_imported_is_not_blamed_on_the_document(module):
    assert module("1 / 0") == "figs"  # not needed
    with pytest.raises(
        OperadError, match=r"^the process that reads documents cannot import what it needs: .*figs"
    ) as e:
        module("1 / 0", b"__import__('figs')")
    assert not isinstance(e.value, InputError)


SCRIPT = """
import os, sys
from operad.runtime.knowledge.reader_process import read
print(read(eval, b"__import__('os').getppid()", answer=int, what="file"), flush=True)
if sys.argv[1] == "fork":
    if pid := os.fork():
        os.waitpid(pid, 0)
    print(read(len, b"abc", answer=int, what="file"), flush=True)
if sys.argv[1] == "kill":
    os.kill(os.getpid(), 9)
"""


@on_linux
@pytest.mark.parametrize("way", ["exit", "kill"])
def test_nothing_is_left_when_the_process_ends(forked, way):
    process = forked.begin([sys.executable, "-c", f"{SCRIPT}\ninput()", way], stdin=-1, stdout=-1, text=True)
    server = os.pidfd_open(int(process.stdout.readline()))
    process.communicate("\n")
    poll = select.poll()
    poll.register(server, select.POLLIN)
    assert [descriptor for descriptor, _ in poll.poll(30_000)] == [server]
    os.close(server)


@on_linux
def test_a_forked_process_reads_documents_with_a_server_of_its_own(forked):
    done = forked.run([sys.executable, "-c", SCRIPT, "fork"])
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[1:] == ["3", "3"]
    assert done.stderr == ""
