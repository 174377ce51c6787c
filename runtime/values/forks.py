"""Forked processes: threads, locks, event loops and connections stay with the process that made them.

A fork copies the memory of a process, but only the thread that forks: pools without their threads wait for ever, locks
that another thread held stay locked, and a connection would be shared with the parent. Objects of this kind are made
anew in the child, by functions registered here.
"""

from __future__ import annotations

import inspect
import os
import threading
from collections.abc import Callable
from typing import Any, TypeVar
from weakref import WeakMethod

F = TypeVar("F", bound=Callable[[], object])


def after_fork(renew: F) -> F:
    """Call a function in each process that is forked from this one, also as a decorator.

    A method is called as long as its object lives. Functions are called in the order of their registration.
    """
    _register(_renewals, renew)
    return renew


def around_fork(hold: Callable[[], object], release: Callable[[], object] | None = None) -> None:
    """Call a method in this process before each fork, and another one after the fork, in this process and in the child.

    For files that must not be in use while the process forks. Methods are called as long as their objects live, and in
    the order of their registration.
    """
    _register(_holds, hold)
    if release is not None:
        _register(_releases, release)


def leave_to_parent(value: object) -> None:
    """Keep an object of the parent for ever, so that the child neither closes nor deletes it.

    An event loop or a connection that is closed in the child would end that of the parent, too, and an object with threads
    would wait for them for ever.
    """
    import ctypes  # not at import: few processes fork

    # One more reference, which nothing drops: those of modules are dropped before the interpreter ends.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))


class ProcessLock:
    """Reentrant lock for long work that another thread may be doing while the process forks: it is free in the child."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        after_fork(self._renew)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def _renew(self) -> None:
        self._lock = threading.RLock()


_Refs = dict[int, Callable[[], Any]]
_renewals: _Refs = {}
_holds: _Refs = {}
_releases: _Refs = {}


def _register(functions: _Refs, function: Callable[[], object]) -> None:
    if not inspect.ismethod(function):
        functions[id(function)] = lambda: function
        return
    reference: WeakMethod[Any] = WeakMethod(function, lambda gone: functions.pop(id(gone), None))
    functions[id(reference)] = reference


def _call_all(functions: _Refs) -> None:
    for reference in [*functions.values()]:
        if (function := reference()) is not None:
            function()


if hasattr(os, "register_at_fork"):  # Windows does not fork
    os.register_at_fork(
        before=lambda: _call_all(_holds),
        after_in_parent=lambda: _call_all(_releases),
        after_in_child=lambda: (_call_all(_releases), _call_all(_renewals)),
    )
