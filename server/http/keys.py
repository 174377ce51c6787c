"""Keys of a server: who may use which experts, and see whose runs."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
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
class User:
    """A sender of requests whom the host application of a server knows.

        User("ada", experts=frozenset({"Greeter"}), own_runs=True)

    Attributes:
        name: Name, for the access log and for the record of answers. Runs belong to the user who began them, by this name.
        experts: Names of the experts that the user may use; None for all.
        own_runs: True if the user sees only runs that the user began.
    """

    name: str
    _: KW_ONLY
    experts: frozenset[str] | None = None
    own_runs: bool = False


@dataclass(frozen=True, slots=True)
class Key(User):
    """A key that is accepted, as a user with a name. The key itself is not kept.

    Attributes:
        digest: SHA-256 of the key, in hexadecimal digits.
    """

    digest: str = ""

    @classmethod
    def of(cls, text: str, name: str) -> Key:
        """Return the key with a text, for all experts and runs."""
        return cls(name, digest=digest(text.encode()))


@dataclass
class Caller:
    """Sender of a request.

    Attributes:
        user: Its user or key; None if the server requires none.
        run_id: Id of the run that the request is about, once it is known.
    """

    user: User | None = None
    run_id: str = ""

    @property
    def name(self) -> str:
        """Name of its user or key; empty without one."""
        return self.user.name if self.user else ""

    @property
    def limited(self) -> bool:
        """True if it may not see all runs."""
        return self.user is not None and (self.user.own_runs or self.user.experts is not None)

    def may_use(self, expert: str) -> bool:
        """Return True if it may use an expert."""
        return self.user is None or self.user.experts is None or expert in self.user.experts

    def may_see(self, expert: str, session_id: str) -> bool:
        """Return True if it may see, answer, cancel and delete the runs of an expert in a session."""
        own = self.user is None or not self.user.own_runs or owner_of(session_id) == self.user.name
        return own and self.may_use(expert)

    def session(self, session_id: str = "") -> str:
        """Return the id of a session of this caller: a new one, or one that continues another.

        The id of a session is stored with each of its runs, and so says whose they are after a restart as well.
        """
        bare = session_id.rpartition("/")[2] or new_id()
        owner = _KEY if isinstance(self.user, Key) else _USER
        return f"{owner}{self.user.name}/{bare}" if self.user else bare


def may_answer(name: str, people: Sequence[str]) -> bool:
    """Return True if a sender may answer a question.

    Args:
        name: Name of the sender; empty if the server knows no names: anyone may answer then.
        people: Names of the people who may answer; empty for anyone.
    """
    return not name or not people or name in people


_KEY, _USER = "key:", "user:"


def owner_of(session_id: str) -> str:
    """Return the name of the user or key that a session belongs to; empty for none."""
    owner, slash, _ = session_id.rpartition("/")
    kind = next((each for each in (_KEY, _USER) if slash and owner.startswith(each)), None)
    return owner.removeprefix(kind) if kind else ""


def caller_name(scope: Mapping[str, Any]) -> str:
    """Return the name of the sender of a request, from its ASGI scope; empty if it is not known."""
    state: dict[str, Any] = scope.get("state") or {}
    caller: Caller | None = state.get("caller")
    return caller.name if caller else ""


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
        experts_of_key = None if spec.experts is None else frozenset(spec.experts)
        keys.append(Key(name, experts=experts_of_key, own_runs=spec.own_runs, digest=spec.sha256))
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
