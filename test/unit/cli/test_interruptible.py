"""What ends with a command."""

import signal
import sys

from operad.cli.interruptible import end_children


def test_all_children_are_ended_though_threads_and_other_children_have_ended_meanwhile(tmp_path, forked):
    process = forked.begin([sys.executable, "-c", "import time; time.sleep(600)"])
    for thread in ("1", "3"):
        (tmp_path / thread / "children").mkdir(parents=True)  # cannot be read, as that of a thread that has ended
    (tmp_path / "2").mkdir()
    (tmp_path / "2" / "children").write_text(f"{2**22 + 1} {process.pid} ")  # the first is no process's
    end_children(tmp_path)
    assert process.wait() == -signal.SIGTERM
