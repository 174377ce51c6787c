"""Start of the `operad` command. Ctrl-C ends it with one line, until a command handles Ctrl-C itself."""

import atexit
import gc
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
else:
    import _signal as signal  # signal imports enum: a while in which nothing handles Ctrl-C

# Objects after which Python looks for garbage. What imports make stays: to look after each 700 took a seventh of the
# start, and after each 50,000 still a fifteenth.
_WHILE_IMPORTING, _AFTERWARDS = 150_000, 50_000


def main() -> None:
    """Run the command."""
    signal.signal(signal.SIGINT, _leave)
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)  # the interpreter goes: there is nothing to interrupt
    gc.set_threshold(_WHILE_IMPORTING)
    try:
        from operad.cli import main as cli

        cli.main()
    finally:
        signal.signal(signal.SIGINT, _leave)


def imports_done() -> None:
    """Stop looking for garbage in what the imports of the command have made."""
    if gc.get_threshold()[0] == _WHILE_IMPORTING:  # not in another program that imports a command
        gc.freeze()
        gc.set_threshold(_AFTERWARDS)


def _leave(number: int, frame: object) -> None:
    """End at once: an exception would be raised at any point of the code, also where it cannot be caught."""
    os.write(2, b"operad: interrupted\n")
    os._exit(130)
