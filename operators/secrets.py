"""Values of named secrets: the environment, the system's keyring, or a file.

A secret's value is looked up when a request is sent, in this order:

1. the environment variable of its name;
2. the file that ``OPERAD_SECRETS`` names, if it is set: YAML with ``NAME: value``, readable by its owner only;
3. otherwise the keyring of the system, with the extra ``keyring``.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

from operad.runtime.tools.tool import Tool, ToolSource
from operad.runtime.values.document import parse_document
from operad.runtime.values.errors import InputError, InvalidError, MissingExtraError, did_you_mean
from operad.runtime.values.file import write_private
from operad.runtime.values.pip import pip_install
from operad.runtime.values.secret import Secret, SecretUse, is_secret_name, missing_text

FindSecret = Callable[[str], str | None]
"""Function that returns the value of a secret by its name; None if there is none."""

FILE_VARIABLE = "OPERAD_SECRETS"
"""Environment variable with the path of the file of secrets."""

MAX_BYTES = 2**20
"""Maximum size of the file of secrets, in bytes."""

MAX_VALUE = 64 * 2**10
"""Maximum length of a secret's value, in characters."""

_SERVICE = "operad"
_INDEX = "*"
"""Name in the keyring under which the names of all secrets are stored, because a keyring lists none."""


class SecretStore(Protocol):
    """Store of secrets on this machine."""

    @property
    def where(self) -> str:
        """Description of the store."""
        ...

    def names(self) -> list[str]:
        """Return the names of all secrets, sorted."""
        ...

    def get(self, name: str) -> str | None:
        """Return the value of a secret; None if there is none."""
        ...

    def set(self, name: str, value: str) -> None:
        """Store the value of a secret."""
        ...

    def delete(self, name: str) -> None:
        """Delete a secret, which must exist."""
        ...


def secret_store(environ: Mapping[str, str] | None = None) -> SecretStore:
    """Return the store of secrets: the file that ``OPERAD_SECRETS`` names, otherwise the system's keyring.

    Args:
        environ: Environment to read; by default `os.environ` at the time of the call.
    """
    path = (os.environ if environ is None else environ).get(FILE_VARIABLE)
    return SecretsFile(Path(path).expanduser()) if path else Keyring()


def find_secret(name: str) -> str | None:
    """Return the value of a secret: of the environment variable of its name, or of the store; None if there is none.

    Raises:
        InputError: The store cannot be read.
    """
    if value := os.environ.get(name):
        return value
    return secret_store().get(name) or None


_SECRET_VARIABLE = re.compile(r"(?:^|_)(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)(?:_|$)", re.IGNORECASE)
"""Names of environment variables that hold secrets."""


def known_secrets() -> list[str]:
    """Return the values of all secrets that this process knows, to hide them: of the store and of the environment."""
    found = [value for name, value in os.environ.items() if _SECRET_VARIABLE.search(name)]
    with suppress(InputError, MissingExtraError):  # without a store, there are no further secrets
        store = secret_store()
        found += [value for name in store.names() if (value := store.get(name))]
    return found


def missing_secrets(secrets: Iterable[Secret], find: FindSecret) -> list[str]:
    """Return the names of the secrets without a value, each once."""
    return [name for name in dict.fromkeys(secret.name for secret in secrets) if not find(name)]


def secret_uses_of(tools: Iterable[Tool | ToolSource]) -> list[SecretUse]:
    """Return the secrets that the sources among tools get, and where they are sent."""
    return [use for tool in tools if isinstance(tool, ToolSource) for use in tool.secret_uses]


def secret_value(secret: Secret, find: FindSecret) -> str:
    """Return the value of a secret.

    Raises:
        InputError: The secret has no value, or one with a line break.
    """
    value = find(secret.name)
    if not value:
        raise InputError(missing_text([secret.name]))
    return check_secret(secret.name, value)


def check_secret(name: str, value: str) -> str:
    """Return the value of a secret without the line break at its end.

    Raises:
        InputError: The name or the value cannot be used; the error does not contain the value.
    """
    if not is_secret_name(name):
        raise InputError("the name of a secret consists of at most 100 letters, digits and underscores of ASCII")
    value = value.rstrip("\r\n")
    if not value.strip():
        raise InputError(f"{name}: the value is empty")
    if len(value) > MAX_VALUE:
        raise InputError(f"{name}: the value has {len(value):,} characters, more than the maximum of {MAX_VALUE:,}")
    if not value.isprintable():
        raise InputError(f"{name}: the value contains a line break or another invisible character")
    return value


class Keyring:
    """The keyring of the system: Keychain on macOS, Credential Locker on Windows, Secret Service on Linux."""

    where = "the system's keyring"

    def names(self) -> list[str]:
        """Return the names of all secrets, sorted."""
        try:
            names = json.loads(self._call("get_password", _SERVICE, _INDEX) or "[]")
        except (ValueError, RecursionError):
            return []
        listed = cast("list[object]", names) if isinstance(names, list) else []
        return sorted(name for name in listed if isinstance(name, str) and is_secret_name(name))

    def get(self, name: str) -> str | None:
        """Return the value of a secret; None if there is none, or no keyring."""
        return self._call("get_password", _SERVICE, name, needed=False)

    def set(self, name: str, value: str) -> None:
        """Store the value of a secret.

        Raises:
            InputError: There is no keyring, or it refuses.
            MissingExtraError: The package keyring is not installed.
        """
        self._call("set_password", _SERVICE, name, value)
        self._call("set_password", _SERVICE, _INDEX, json.dumps(sorted({*self.names(), name})))

    def delete(self, name: str) -> None:
        """Delete a secret."""
        self._call("delete_password", _SERVICE, name)
        self._call("set_password", _SERVICE, _INDEX, json.dumps(sorted({*self.names()} - {name})))

    def _call(self, method: str, *arguments: str, needed: bool = True) -> Any:
        """Call a function of the package keyring; its errors do not contain the arguments.

        Args:
            needed: False to return None if there is no keyring.
        """
        try:
            keyring: Any = import_module("keyring")
            no_keyring: Any = import_module("keyring.errors").NoKeyringError
        except ImportError as error:
            if not needed:
                return None
            raise MissingExtraError(
                f"the keyring needs the package keyring ({error}): {pip_install('keyring')}; or name a file by "
                f"{FILE_VARIABLE}"
            ) from error
        try:
            return getattr(keyring, method)(*arguments)
        except no_keyring:
            if not needed:
                return None
            raise InputError(
                f"this machine has no keyring; name a file for secrets by {FILE_VARIABLE}, or set the secret as an "
                "environment variable"
            ) from None
        except Exception as error:  # noqa: BLE001 - of any backend; its text may contain the value
            raise InputError(
                f"{self.where} refuses ({type(error).__name__}); unlock it, or name a file for secrets by {FILE_VARIABLE}"
            ) from None


class SecretsFile(NamedTuple):
    """File of secrets, YAML with ``NAME: value``, which only its owner can read and write.

    Attributes:
        path: The file. It need not exist.
    """

    path: Path

    @property
    def where(self) -> str:
        """Description of the store."""
        return str(self.path)

    def names(self) -> list[str]:
        """Return the names of all secrets, sorted."""
        return sorted(self._read())

    def get(self, name: str) -> str | None:
        """Return the value of a secret; None if there is none."""
        return self._read().get(name)

    def set(self, name: str, value: str) -> None:
        """Store the value of a secret.

        Raises:
            InputError: The file cannot be read or written.
        """
        self._write({**self._read(), name: value})

    def delete(self, name: str) -> None:
        """Delete a secret."""
        self._write({other: value for other, value in self._read().items() if other != name})

    def _read(self) -> dict[str, str]:
        """Return the secrets by name."""
        try:
            with self.path.open("rb") as file:
                if os.name == "posix" and os.fstat(file.fileno()).st_mode & 0o077:
                    raise InputError(f"{self.path}: others can read or write it; chmod 600 it")
                data = file.read(MAX_BYTES + 1)
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise InputError(f"{self.path}: cannot be read: {error.strerror or error}") from error
        if not data.strip():
            return {}
        try:
            values: Any = parse_document(data.decode(), str(self.path)).data if len(data) <= MAX_BYTES else None
        except (InvalidError, InputError, UnicodeDecodeError):
            values = None
        if not isinstance(values, dict) or not all(
            isinstance(name, str) and is_secret_name(name) and isinstance(value, str)
            for name, value in cast("dict[object, object]", values).items()
        ):
            raise InputError(
                f'{self.path}: is not a file of secrets: write NAME: "value" on each line, with the value in quotes'
            ) from None
        return cast("dict[str, str]", values)

    def _write(self, values: Mapping[str, str]) -> None:
        text = "".join(f"{name}: {json.dumps(value)}\n" for name, value in sorted(values.items()))
        write_private(self.path, text)


def known_name(name: str, names: Iterable[str], where: str) -> str:
    """Return a name that a store has.

    Raises:
        InputError: The store has no secret of that name.
    """
    listed = list(names)
    if name not in listed:
        raise InputError(f"{where} has no secret {name!r}{did_you_mean(name, listed)}; operad secrets lists them")
    return name
