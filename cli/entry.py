"""Start of the `operad` command. Ctrl-C ends it with one line, until a command handles Ctrl-C itself."""

import atexit
import gc
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
else:
    import _signal as signal  # signal imports enum: a while in which nothing handles Ctrl-C


def main() -> None:
    """Run the command."""
    signal.signal(signal.SIGINT, _leave)
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)  # the interpreter goes: there is nothing to interrupt
    # What imports make stays: to look for garbage after each 700 objects took a seventh of the start.
    gc.set_threshold(50_000)
    try:
        from operad.cli import main as cli

        cli.main()
    finally:
        signal.signal(signal.SIGINT, _leave)


def _leave(number: int, frame: object) -> None:
    """End at once: an exception would be raised at any point of the code, also where it cannot be caught."""
    os.write(2, b"operad: interrupted\n")
    os._exit(130)
