"""Start of the `operad` command. Ctrl-C ends it with one line, until a command handles Ctrl-C itself."""

import atexit
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
else:
    import _signal as signal  # signal imports enum; until then, nothing would handle Ctrl-C


def main() -> None:
    """Run the command."""
    signal.signal(signal.SIGINT, _leave)
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)  # at exit there is nothing left to interrupt
    try:
        from operad.cli import process

        process.imports_begin()
        process.guard()
        from operad.cli import main as cli

        cli.main()
    finally:
        signal.signal(signal.SIGINT, _leave)


def _leave(number: int, frame: object) -> None:
    """Exit at once: an exception could be raised at any point of the code, also where it cannot be caught."""
    try:
        os.write(2, b"operad: interrupted\n")
    finally:
        os._exit(130)
