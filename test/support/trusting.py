"""Commands on files that name code of a test, with `--trust`."""

from __future__ import annotations

_RUN_CODE = {"chat", "generate", "optimise", "run", "serve", "worker"}


def with_trust(arguments: tuple[object, ...] | list[str]) -> list[str]:
    """Return the arguments of `operad` with `--trust`, where the command runs code of files."""
    words = [str(each) for each in arguments]
    at = 2 if words[:2] == ["runs", "resume"] else 1 if words[:1] and words[0] in _RUN_CODE else 0
    return [*words[:at], "--trust", *words[at:]] if at else words
