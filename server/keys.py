"""Keys of a server: who may use which experts, and see whose runs."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, cast

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictStr, ValidationError, field_validator

from operad.configs.faults import Faults
from operad.runtime.values.document import read_document
from operad.runtime.values.errors import InputError, did_you_mean
from operad.runtime.values.message import new_id

SHORTEST_KEY = 16
"""Minimum number of characters of a key."""


@dataclass(frozen=True, slots=True)
class Key:
    """A key that is accepted. The key itself is not kept.

    Attributes:
        name: Name, for the access log. Runs belong to the key that began them, by its name.
        digest: SHA-256 of the key, in hexadecimal digits.
        experts: Names of the experts that it may use; None for all.
        own_runs: True if it sees only runs that it began.
    """

    name: str
    digest: str
    experts: frozenset[str] | None = None
    own_runs: bool = False

    @classmethod
    def of(cls, text: str, name: str) -> Key:
        """Return the key with a text, for all experts and runs."""
        return cls(name, digest(text.encode()))


@dataclass
class Caller:
    """Sender of a request.

    Attributes:
        key: Its key; None if the server requires none.
        run_id: Id of the run that the request is about, once it is known.
    """

    key: Key | None = None
    run_id: str = ""

    @property
    def name(self) -> str:
        """Name of its key; empty without one."""
        return self.key.name if self.key else ""

    @property
    def limited(self) -> bool:
        """True if it may not see all runs."""
        return self.key is not None and (self.key.own_runs or self.key.experts is not None)

    def may_use(self, expert: str) -> bool:
        """Return True if it may use an expert."""
        return self.key is None or self.key.experts is None or expert in self.key.experts

    def may_see(self, expert: str, session_id: str) -> bool:
        """Return True if it may see, answer, cancel and delete the runs of an expert in a session."""
        own = self.key is None or not self.key.own_runs or owner_of(session_id) == self.key.name
        return own and self.may_use(expert)

    def session(self, session_id: str = "") -> str:
        """Return the id of a session of this caller: a new one, or one that continues another.

        The id of a session is stored with each of its runs, and so says whose they are after a restart as well.
        """
        bare = session_id.rpartition("/")[2] or new_id()
        return f"{_OWNER}{self.key.name}/{bare}" if self.key else bare


_OWNER = "key:"


def owner_of(session_id: str) -> str:
    """Return the name of the key that a session belongs to; empty for none."""
    owner, slash, _ = session_id.rpartition("/")
    return owner.removeprefix(_OWNER) if slash and owner.startswith(_OWNER) else ""


class KeySpec(BaseModel):
    """A key in a file of keys, under its name.

    Attributes:
        sha256: SHA-256 of the key, in hexadecimal digits.
        experts: Names of the experts that the key may use; by default all.
        own_runs: True if the key sees only runs that it began.
    """

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    sha256: str
    experts: Annotated[list[StrictStr], Field(min_length=1)] | None = None
    own_runs: StrictBool = False

    @field_validator("sha256", mode="before")
    @classmethod
    def _check_digest(cls, value: Any) -> Any:
        if not isinstance(value, str) or not re.fullmatch(r"[0-9a-fA-F]{64}", value):  # the value may be a key
            raise ValueError("expected the SHA-256 of a key, 64 hexadecimal digits; `operad key NAME` prints it")
        return value.lower()


def read_name(text: str) -> str:
    """Return the name of a key.

    Raises:
        InputError: The text is not such a name.
    """
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9._-]{0,63}", text):
        raise InputError(
            f"{text[:80]!r} cannot name a key: a name begins with a letter, and has up to 64 letters, digits, `.`, `_` and `-`"
        )
    return text


def read_key_file(path: Path, experts: Sequence[str], others: Sequence[Key] = ()) -> tuple[Key, ...]:
    """Return the keys of a file in YAML, which holds their hashes.

    Args:
        others: Keys that are accepted as well.

    Raises:
        InputError: The file cannot be read.
        InvalidError: The file is not valid; all issues are listed with their lines.
    """
    document = read_document(path)
    faults, keys = Faults(document, KeySpec), list(others)
    for name, value in document.data.items():
        try:
            read_name(name)
        except InputError as error:
            faults.report((name,), "value", str(error))
        spec = _read_spec(name, value, faults)
        if spec is None:
            continue
        for number, expert in enumerate(spec.experts or ()):
            if expert not in experts:
                hint = did_you_mean(expert, experts) or f"; there are: {', '.join(experts)}"
                faults.report((name, "experts", number), "value", f"no expert has the name {expert!r}{hint}")
        for other in keys:
            if other.name == name or other.digest == spec.sha256:
                faults.report((name,), "duplicate-name", f"has the name or the hash of the key {other.name!r}")
        keys.append(Key(name, spec.sha256, None if spec.experts is None else frozenset(spec.experts), spec.own_runs))
    if faults:
        raise faults.error()
    if not document.data:
        raise InputError(f"{path}: holds no key; add one: operad key NAME >> {path}")
    return tuple(keys[len(others) :])


def _read_spec(name: str, value: Any, faults: Faults) -> KeySpec | None:
    """Return the entry of a key; None if it has faults, which are reported without its values."""
    if not isinstance(value, dict):
        faults.report((name,), "value", "expected a mapping: sha256, experts, own_runs; `operad key NAME` prints it")
        return None
    fields = cast("dict[str, Any]", value)
    if "key" in fields:
        faults.report((name, "key"), "value", "a file of keys holds their hashes: sha256; `operad key NAME` prints one")
    try:
        return KeySpec.model_validate({part: each for part, each in fields.items() if part != "key"})
    except ValidationError as error:
        faults.report_validation((name,), error)
        return None


def digest(key: bytes) -> str:
    """Return the SHA-256 of a key, in hexadecimal digits."""
    return hashlib.sha256(key).hexdigest()


def find_key(keys: Sequence[Key], given: bytes) -> Key | None:
    """Return the key that a request gives, compared with every key in constant time; None if it is not accepted."""
    given_digest = digest(given)
    matching = [key for key in keys if hmac.compare_digest(given_digest, key.digest)]
    return matching[0] if matching else None


def read_keys(texts: Sequence[str], where: str, before: int = 0) -> tuple[Key, ...]:
    """Return the keys in texts, one per text; empty texts and those that start with # are skipped.

    Args:
        where: Where they are, for errors.

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
    return tuple(Key.of(key, f"key-{number}") for number, key in enumerate(keys, before + 1))
