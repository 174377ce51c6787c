"""What ends with a command."""

import signal
import sys
import threading

from operad.cli.interruptible import end_children, signals_heard


def test_all_children_are_ended_though_threads_and_other_children_have_ended_meanwhile(tmp_path, forked):
    process = forked.begin([sys.executable, "-c", "import time; time.sleep(600)"])
    for thread in ("1", "3"):
        (tmp_path / thread / "children").mkdir(parents=True)  # cannot be read, as that of a thread that has ended
    (tmp_path / "2").mkdir()
    (tmp_path / "2" / "children").write_text(f"{2**22 + 1} {process.pid} ")  # the first is no process's
    end_children(tmp_path)
    assert process.wait() == -signal.SIGTERM


def test_the_thread_that_hears_signals_has_ended_behind_the_work():
    def names():
        return [thread.name for thread in threading.enumerate()]

    with signals_heard(lambda number: None):
        assert "operad-signals" in names()
    assert "operad-signals" not in names()


def test_a_signal_that_arrives_while_the_handlers_change_is_handled_once(monkeypatch):
    heard: list[int] = []
    left: list[int] = []
    arrived = threading.Event()
    set_wakeup_fd = signal.set_wakeup_fd

    def interrupted(fd: int, **options: bool) -> int:
        before = set_wakeup_fd(fd, **options)
        monkeypatch.undo()
        signal.raise_signal(signal.SIGINT)
        return before

    handler = signal.signal(signal.SIGINT, lambda number, _: left.append(number))
    try:
        monkeypatch.setattr(signal, "set_wakeup_fd", interrupted)
        with signals_heard(lambda number: (heard.append(number), arrived.set())):
            assert arrived.wait(10)
    finally:
        signal.signal(signal.SIGINT, handler)
    assert (heard, left) == ([signal.SIGINT], [])
