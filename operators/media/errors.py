"""Errors of generating files from text."""

from __future__ import annotations

from importlib.util import find_spec

from operad.runtime.values.errors import MissingExtraError, OperadError
from operad.runtime.values.pip import pip_install


class MediaError(OperadError):
    """The input cannot be converted to the requested file, or not within its limits."""


def need(what: str, *packages: str, extra: str = "media") -> None:
    """Check that packages are installed, without importing them.

    Args:
        what: Purpose of the packages, for the error.
        packages: Names of the modules.
        extra: The extra that installs the packages.

    Raises:
        MissingExtraError: A package is not installed.
    """
    if missing := [package for package in packages if find_spec(package) is None]:
        raise MissingExtraError(
            f"{what} needs the package{'s' if missing[1:] else ''} {' and '.join(missing)}: {pip_install(extra)}"
        )


def check_text(what: str, text: str, most: int) -> None:
    """Check that a text is neither empty nor too long.

    Raises:
        MediaError: The text is empty, or longer than `most` characters.
    """
    if not text.strip():
        raise MediaError(f"{what}: the text is empty; check the reference that it comes from")
    if len(text) > most:
        raise MediaError(f"{what}: the text has {len(text):,} characters; the maximum is {most:,}: split it")
