"""Where the `operad` command begins: Ctrl-C is heeded while all else is still being imported."""

import os
import signal


def main() -> None:
    """Run the command."""
    before = signal.signal(signal.SIGINT, _leave)
    from operad.configs import cli

    signal.signal(signal.SIGINT, before)
    cli.main()


def _leave(number: int, frame: object) -> None:
    os.write(2, b"operad: interrupted\n")
    os._exit(130)
