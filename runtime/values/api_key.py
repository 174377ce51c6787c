"""API keys, given as text and kept as secrets."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, SecretStr


def _as_secret(key: object) -> object:
    return SecretStr(key) if isinstance(key, str) else key


ApiKey = Annotated[SecretStr | str, BeforeValidator(_as_secret)]
"""An API key, given as text or `SecretStr`, and stored as a `SecretStr`, which hides it in `repr` and logs."""


def key_text(key: SecretStr | str | None) -> str:
    """Return the text of a key; empty for None.

    >>> key_text(SecretStr("sk-1"))
    'sk-1'
    """
    return key.get_secret_value() if isinstance(key, SecretStr) else key or ""
