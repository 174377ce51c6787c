"""Private modules of configurations: loaded under a private package, named by their own names."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

PREFIX = "_operad_code_"
"""Prefix of each private package's name; a digest of its files follows."""

_PRIVATE = re.compile(rf"{PREFIX}[0-9a-f]+\.")


def public_name(module: str | None) -> str | None:
    """Return the name of a module without its private package; for ``__main__``, the name by which it can be imported.

    Kept runs and caches use this name, so they remain valid after a project has been moved or changed, and a process
    that imports a program can resume its runs.

    Example:
        >>> public_name("_operad_code_3f2a.letters"), public_name("json")
        ('letters', 'json')
    """
    if module == "__main__":
        return _name_of_program() or module
    return module and _PRIVATE.sub("", module, count=1)


def _name_of_program() -> str:
    """Return the name by which ``__main__`` can be imported: of ``python -m``, or of its file; empty if interactive."""
    program = sys.modules["__main__"]
    spec = getattr(program, "__spec__", None)
    if spec is not None:
        return spec.name.removesuffix(".__main__")
    return Path(getattr(program, "__file__", None) or "").stem


def loaded_module(name: str) -> ModuleType | None:
    """Return the loaded module with this public name; None if there is none."""
    if name in sys.modules:
        return sys.modules[name]
    if name == public_name("__main__"):
        return sys.modules["__main__"]
    private = (each for each in list(sys.modules) if each.startswith(PREFIX) and public_name(each) == name)
    return next((sys.modules[each] for each in private), None)
