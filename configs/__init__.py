"""How YAML becomes experts, and the `operad` command."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from operad.configs.loader import Configuration, load

__all__ = ["Configuration", "load"]


def __getattr__(name: str) -> object:  # imported when it is asked for: the command heeds Ctrl-C before that
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from operad.configs import loader

    return getattr(loader, name)
