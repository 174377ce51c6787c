"""Processes that the kernel confines."""

import json
import platform
import signal
import subprocess
import sys
from pathlib import Path

import attacks
import pytest

from operad.runtime.barrier import missing

pytestmark = pytest.mark.skipif(bool(missing()), reason=f"no barrier here: it lacks {'; '.join(missing())}")


def run_attacks(folder: Path, kind: str) -> "subprocess.CompletedProcess[str]":
    (folder / "scratch").mkdir()
    (folder / "secret").write_text("secret")
    command = [sys.executable, attacks.__file__, str(folder), kind]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    return {kind: json.loads(run_attacks(tmp_path_factory.mktemp(kind), kind).stdout) for kind in ("free", "confined")}


@pytest.mark.parametrize("attack", attacks.ATTACKS)
def test_an_attack_that_succeeds_without_the_barrier_is_refused_by_it(attack, outcomes):
    if outcomes["free"][attack] != "done":
        pytest.skip(f"this system refuses it in any case: {outcomes['free'][attack]}")
    assert outcomes["confined"][attack] in ("EPERM", "EACCES", "EXDEV")


@pytest.mark.parametrize("use", attacks.HARMLESS)
def test_a_confined_process_still_computes(use, outcomes):
    assert outcomes["confined"][use] == "done"


@pytest.mark.skipif(platform.machine() != "x86_64", reason="machine code of x86-64")
def test_a_system_call_of_32_bit_programs_ends_the_process(tmp_path):
    assert run_attacks(tmp_path, "foreign").returncode == -signal.SIGSYS


def test_a_system_call_that_is_newer_than_the_filter_seems_absent():
    script = """
import ctypes, errno
from operad.runtime.barrier import confine
confine()
libc = ctypes.CDLL(None, use_errno=True)
for number in (435, 463, 468, 1000, 0x40000000 | 39):
    assert libc.syscall(number, 0, 0, 0, 0) == -1
    print(errno.errorcode[ctypes.get_errno()])
"""
    assert (
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout.split() == ["ENOSYS"] * 5
    )


def test_a_process_with_threads_is_not_confined_in_part(forked):
    script = """
import threading
from operad.runtime.barrier import confine
end = threading.Event()
threading.Thread(target=end.wait).start()
try:
    confine()
except RuntimeError as error:
    print(error)
end.set()
"""
    done = forked.run([sys.executable, "-c", script])
    assert done.stdout == "a barrier must be put round a process before it starts threads; it has 2\n"


def test_a_confined_process_reads_what_it_is_given(tmp_path):
    (tmp_path / "given").write_text("given")
    (tmp_path / "other").write_text("other")
    script = f"""
from pathlib import Path
from operad.runtime.barrier import confine
folder = Path({str(tmp_path)!r})
confine(read=[folder / "given", folder / "absent"])
print((folder / "given").read_text())
for use in (lambda: (folder / "other").read_text(), lambda: (folder / "given").write_text("x")):
    try:
        use()
    except PermissionError as error:
        print(error.strerror)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.splitlines() == ["given", "Permission denied", "Permission denied"]


def test_a_confined_process_ends_with_its_parent():
    child = """
import ctypes, time
from operad.runtime.barrier import confine
confine()
print(ctypes.CDLL(None).prctl(1, 0, 0, 0, 0), flush=True)
time.sleep(600)
"""
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "-1\n"  # nor does it change that
        process.kill()
        assert process.stdout.read() == ""  # ends when no process has the pipe


def test_a_system_without_landlock_and_seccomp_says_what_is_missing(monkeypatch):
    assert missing() == []
    monkeypatch.setattr(sys, "platform", "darwin")
    assert missing() == ["Landlock and seccomp, which only Linux has (this is darwin)"]
