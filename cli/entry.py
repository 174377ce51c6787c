"""Start of the `operad` command. Ctrl-C ends it with one line, until a command handles Ctrl-C itself."""

import atexit
import gc
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
else:
    import _signal as signal  # signal imports enum; until then, nothing would handle Ctrl-C

# Number of new objects after which Python collects garbage, during and after imports. Objects that imports create are
# not garbage: collections after each 700 objects took a seventh of the start, and after each 50,000 still a fifteenth.
_IMPORT_THRESHOLD, _THRESHOLD = 150_000, 50_000


def main() -> None:
    """Run the command."""
    signal.signal(signal.SIGINT, _leave)
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)  # at exit there is nothing left to interrupt
    gc.set_threshold(_IMPORT_THRESHOLD)
    try:
        from operad.cli import streams

        streams.guard()
        from operad.cli import main as cli

        cli.main()
    finally:
        signal.signal(signal.SIGINT, _leave)


def imports_done() -> None:
    """Exclude the objects that the command's imports created from garbage collection."""
    if gc.get_threshold()[0] == _IMPORT_THRESHOLD:  # unchanged in other programs that import a command
        gc.freeze()
        gc.set_threshold(_THRESHOLD)


def _leave(number: int, frame: object) -> None:
    """Exit at once: an exception could be raised at any point of the code, also where it cannot be caught."""
    try:
        os.write(2, b"operad: interrupted\n")
    finally:
        os._exit(130)
