"""Experts configured in YAML."""

TYPE_CHECKING = False  # as of typing, which takes a while to import: until then, nothing handles Ctrl-C
if TYPE_CHECKING:
    from operad.configs.loader import Configuration, load

__all__ = ["Configuration", "load"]


def __getattr__(name: str) -> object:  # imported when used, so that the command can start with little
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from operad.configs import loader

    return getattr(loader, name)
