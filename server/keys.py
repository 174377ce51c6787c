"""Keys of a server: who may use which experts, and see whose runs."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Sequence
from dataclasses import dataclass

from operad.runtime.values.errors import InputError

SHORTEST_KEY = 16
"""Minimum number of characters of a key."""


@dataclass(frozen=True, slots=True)
class Key:
    """A key that is accepted. The key itself is not kept.

    Attributes:
        name: Name, for the access log.
        digest: SHA-256 of the key, in hexadecimal digits.
    """

    name: str
    digest: str

    @classmethod
    def of(cls, text: str, name: str) -> Key:
        """Return the key with a text, for all experts and runs."""
        return cls(name, digest(text.encode()))


def digest(key: bytes) -> str:
    """Return the SHA-256 of a key, in hexadecimal digits."""
    return hashlib.sha256(key).hexdigest()


def find_key(keys: Sequence[Key], given: bytes) -> Key | None:
    """Return the key that a request gives, compared with every key in constant time; None if it is not accepted."""
    given_digest = digest(given)
    matching = [key for key in keys if hmac.compare_digest(given_digest, key.digest)]
    return matching[0] if matching else None


def read_keys(texts: Sequence[str], where: str) -> tuple[Key, ...]:
    """Return the keys in texts, one per text; empty texts and those that start with # are skipped.

    Raises:
        InputError: A key is too short or contains characters that a header cannot hold.
    """
    keys = [text.strip() for text in texts]
    keys = [key for key in keys if key and not key.startswith("#")]
    for number, key in enumerate(keys, 1):
        if len(key) < SHORTEST_KEY or not re.fullmatch(r"[!-~]+", key):
            raise InputError(
                f"{where}: key {number} has to be {SHORTEST_KEY} or more visible ASCII characters without spaces; "
                "make one: python -c 'import secrets; print(secrets.token_urlsafe())'"
            )
    return tuple(Key.of(key, f"key-{number}") for number, key in enumerate(keys, 1))
