"""Authentication by the host application, instead of keys."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request

from operad.runtime.values.arguments import short_repr
from operad.runtime.values.errors import InputError
from operad.server.http.keys import User
from operad.server.http.problems import RefusedError, internal_error

Auth = Callable[[Any], "str | User | Awaitable[str | User | None] | None"]
"""Function of the host application that gets a request, a `starlette.requests.Request`, and returns the name of its user,
or a `User` with limits; or None, or raises an `HTTPException`, to refuse the request. It may be a coroutine function."""

_LONGEST_NAME = 200


async def authenticated(auth: Auth, scope: Any) -> User:
    """Return the user of a request.

    Raises:
        RefusedError: The host application refuses the request; with its status and headers, such as a redirection to its login.
            Or the function returned something else than a user.
    """
    request: HTTPConnection = Request(scope)
    try:
        found: Any = auth(request) if _is_async(auth) else await run_in_threadpool(auth, request)
        if inspect.isawaitable(found):
            found = await found
    except HTTPException as error:
        refused = RefusedError(error.status_code, str(error.detail))
        refused.headers = dict(error.headers or {})
        raise refused from error
    if found is None:
        refused = RefusedError(401, "no user is signed in; sign in first, in the application that serves this")
        refused.headers.pop("WWW-Authenticate")  # which names keys
        raise refused
    user = User(found) if isinstance(found, str) else found
    if not isinstance(user, User) or not 0 < len(user.name) <= _LONGEST_NAME or not user.name.isprintable():
        wanted = f"the name of a user, of 1 to {_LONGEST_NAME} printable characters, a User, or None"
        raise internal_error(InputError(f"auth: expected {wanted}; got {short_repr(found)}"))
    return user


def _is_async(auth: Auth) -> bool:
    return inspect.iscoroutinefunction(auth) or inspect.iscoroutinefunction(getattr(auth, "__call__", None))  # noqa: B004
