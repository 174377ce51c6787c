import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios

import pytest
from forked import OPERAD_COMMAND


@pytest.fixture
def at_a_terminal(forked, tmp_path):
    """Runs the command on a terminal, in the test's folder: exit status, stdout, and what the terminal shows.

    Each turn is what is typed, or a signal, once a prompt stands there; or a function that says which.
    """

    def at_a_terminal(arguments, *turns):
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
        process = forked.begin(
            [*OPERAD_COMMAND, *arguments],
            cwd=tmp_path, stdin=theirs, stderr=theirs, stdout=subprocess.PIPE, env={**os.environ, "TERM": "xterm"},
        )  # fmt: skip
        os.close(theirs)
        seen, left = b"", list(turns)
        with process:
            while select.select([ours], [], [], 60)[0]:
                try:
                    seen += os.read(ours, 4096)
                except OSError:  # nobody is there any more
                    break
                if left and seen.endswith(b"> "):
                    turn = left.pop(0)
                    if callable(turn):
                        turn = turn()
                    if isinstance(turn, signal.Signals):
                        process.send_signal(turn)
                    else:
                        os.write(ours, turn if isinstance(turn, bytes) else f"{turn}\n".encode())
            else:
                process.kill()
            assert process.stdout is not None
            out = process.stdout.read().decode()
        os.close(ours)
        assert "Traceback" not in seen.decode()
        return process.returncode, out, seen.decode().replace("\r\n", "\n")

    return at_a_terminal
