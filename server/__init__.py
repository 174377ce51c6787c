"""HTTP: the API and pages of a server, and the application to mount into others."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from operad.server.embed import asgi
    from operad.server.http.bounds import Bounds
    from operad.server.http.keys import User

__all__ = ["Bounds", "User", "asgi"]


def __getattr__(name: str) -> object:
    """Return a public name; its module is imported when it is used."""
    from importlib import import_module  # not at import: the command line imports parts of this package

    homes = {"Bounds": "http.bounds", "User": "http.keys", "asgi": "embed"}
    if name not in homes:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{homes[name]}"), name)
