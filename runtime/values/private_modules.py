"""Names of modules that configurations bring along: loaded under a private package, called by their own names."""

from __future__ import annotations

import re
import sys
from types import ModuleType

PREFIX = "_operad_code_"
"""Begin of the name of each private package; a digest of its files follows."""

_PRIVATE = re.compile(rf"{PREFIX}[0-9a-f]+\.")


def public_name(module: str | None) -> str | None:
    """Return the name of a module without its private package.

    Kept runs and caches use this name, so they hold after a project has been moved or changed.

    Example:
        >>> public_name("_operad_code_3f2a.letters"), public_name("json")
        ('letters', 'json')
    """
    return module and _PRIVATE.sub("", module, count=1)


def loaded_module(name: str) -> ModuleType | None:
    """Return the module of that public name, if one is loaded."""
    if name in sys.modules:
        return sys.modules[name]
    private = (each for each in list(sys.modules) if each.startswith(PREFIX) and public_name(each) == name)
    return next((sys.modules[each] for each in private), None)
