"""API keys, given as text and kept as secrets."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, SecretStr


def _as_secret(key: object) -> object:
    return SecretStr(key) if isinstance(key, str) else key


ApiKey = Annotated[SecretStr | str, BeforeValidator(_as_secret)]
"""A key: given as text or as a `SecretStr`, kept as a `SecretStr`, so that no `repr` or log shows it."""


def key_text(key: SecretStr | str | None) -> str:
    """Return the text of a key; empty for None.

    >>> key_text(SecretStr("sk-1"))
    'sk-1'
    """
    return key.get_secret_value() if isinstance(key, SecretStr) else key or ""
