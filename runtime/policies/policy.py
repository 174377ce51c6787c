"""Policies of operators: retries, time limits, budgets, fallbacks and caches, as plain values."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, is_dataclass, replace
from dataclasses import field as dataclass_field
from datetime import timedelta
from typing import Any, ClassVar, Literal, Protocol

from pydantic import BaseModel, JsonValue

from operad.runtime.policies.cache import Cache
from operad.runtime.policies.duration import Duration, in_seconds
from operad.runtime.values.arguments import known_arguments, short_repr
from operad.runtime.values.errors import (
    FetchError,
    InputError,
    InvalidError,
    Issue,
    ModelError,
    OperatorError,
    describe,
)
from operad.runtime.values.message import Usage, WorkflowMessage
from operad.runtime.values.own import own
from operad.runtime.values.round_trip import message_of

_TRANSIENT = (TimeoutError, ConnectionError)


def check_positive(what: str, whole: Collection[str] = (), **given: float | None) -> None:
    """Check that numbers are above zero, and that those named in `whole` are whole numbers; None is allowed.

    Raises:
        InvalidError: A number is not; the error has an issue for each.
    """
    issues: list[Issue] = []
    for name, value in given.items():
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float):  # pyright: ignore[reportUnnecessaryIsInstance]
            issues.append(Issue("no-number", f"{value!r} is not a number", f"{what}.{name}"))
        elif name in whole and not isinstance(value, int):
            issues.append(Issue("no-count", f"{value!r} is not a whole number", f"{what}.{name}"))
        elif not value > 0:
            issues.append(Issue("not-positive", f"{value:g} must be more than 0", f"{what}.{name}"))
    if issues:
        raise InvalidError(what, issues)


def _set(value: object, **fields: Any) -> None:
    """Set fields of a frozen dataclass in its constructor."""
    for name, field in fields.items():
        object.__setattr__(value, name, field)


@dataclass(frozen=True, slots=True, init=False)
class Retry:
    """Retries after an error; for every parameter ``retry``, ``retry=3`` is short for ``Retry(attempts=3)``.

        from datetime import timedelta
        from operad import Operator, Policy, Retry

        patient = Retry(attempts=5, first_delay=2, max_delay=timedelta(minutes=1))
        facts = Operator("List what the text claims.", policy=Policy(retry=patient))

    Attempt n + 1 begins after a random time between 0 and ``first_delay * 2 ** (n - 1)`` seconds, at most `max_delay`
    (exponential back-off with full jitter). If an endpoint asks for a longer wait (Retry-After), it begins after that.

    Attributes:
        attempts: Number of attempts, including the first.
        first_delay: Maximum wait before the second attempt, in seconds; given as a number or a `timedelta`.
        max_delay: Maximum wait before any attempt, in seconds; given as a number or a `timedelta`.
        on: Types of errors after which to try again; None for transient errors: endpoints that cannot be reached, are
            overloaded or ask to wait (429, 5xx), timeouts, broken connections.

    Raises:
        InvalidError: A value is not above zero.
    """

    attempts: int
    first_delay: float
    max_delay: float
    on: tuple[type[Exception], ...] | None

    @known_arguments
    def __init__(
        self,
        attempts: int = 3,
        first_delay: Duration = 1.0,
        max_delay: Duration = 60.0,
        on: type[Exception] | Iterable[type[Exception]] | None = None,
    ) -> None:
        delays = {"first_delay": in_seconds(first_delay), "max_delay": in_seconds(max_delay)}
        check_positive("Retry", ("attempts",), attempts=attempts, **delays)
        _set(self, attempts=attempts, **delays, on=None if on is None else _error_types(on))

    def wants(self, error: BaseException) -> bool:
        """Return True if this error, or one of its causes, is worth another attempt."""
        chain = list(causes(error))
        if self.on is not None:
            return any(isinstance(link, self.on) for link in chain)
        return any(
            link.transient if isinstance(link, ModelError | FetchError) else isinstance(link, _TRANSIENT)
            for link in chain
        )

    def delay(self, attempt: int, error: BaseException) -> float:
        """Return the number of seconds to wait after an attempt failed with an error."""
        maximum = min(self.max_delay, self.first_delay * 2 ** min(attempt - 1, 64))
        requested = max(
            (link.retry_after or 0.0 for link in causes(error) if isinstance(link, ModelError)), default=0.0
        )
        return max(requested, random.uniform(0, maximum))  # noqa: S311 - jitter, not a secret


def _error_types(on: Any) -> tuple[type[Exception], ...]:
    kinds: tuple[Any, ...] = (on,) if isinstance(on, type) else tuple(on)
    wrong: list[Any] = [kind for kind in kinds if not (isinstance(kind, type) and issubclass(kind, Exception))]
    if wrong:
        raise InvalidError("Retry", [Issue("on", f"{kind!r} is not a type of error", "Retry.on") for kind in wrong])
    return kinds


def retry_of(given: Any) -> Any:
    """Return a `Retry` for a number of attempts; other values are returned unchanged.

    Raises:
        InvalidError: The number is not a whole number above zero.
    """
    is_number = isinstance(given, int | float) and not isinstance(given, bool)
    return Retry(attempts=given) if is_number else given  # pyright: ignore[reportArgumentType] - 2.5 is refused by Retry


def _timeout_of(timeout: Any) -> Any:
    """Return a `Timeout` for a duration; other values are returned unchanged."""
    is_duration = isinstance(timeout, int | float | timedelta) and not isinstance(timeout, bool)
    return Timeout(run=timeout) if is_duration else timeout


def causes(error: BaseException) -> list[BaseException]:
    """Return an error and its causes, nearest first."""
    chain: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in chain:
        chain.append(link)
        link = link.__cause__
    return chain


@dataclass(frozen=True, slots=True, init=False)
class Timeout:
    """Time limits of an attempt; time spent waiting for a person's answer does not count.

        from datetime import timedelta
        from operad import Operator, Policy, Timeout

        patience = Timeout(run=timedelta(minutes=5), idle=30)
        facts = Operator("List what the text claims.", policy=Policy(timeout=patience))

    Attributes:
        run: Seconds from the start of the attempt to its end; given as a number or a `timedelta`.
        idle: Seconds without an event, such as a token or a tool call; given as a number or a `timedelta`.

    Raises:
        InvalidError: A value is not above zero.
    """

    run: float | None
    idle: float | None

    @known_arguments
    def __init__(self, run: Duration | None = None, idle: Duration | None = None) -> None:
        limits = {"run": in_seconds(run), "idle": in_seconds(idle)}
        check_positive("Timeout", **limits)
        _set(self, **limits)


@dataclass(frozen=True, slots=True, init=False)
class Budget:
    """Limits of the usage of a whole run, including nested operators and workflows.

        from datetime import timedelta
        from operad import Budget, Operator, Workflow

        budget = Budget(tokens=50_000, seconds=timedelta(minutes=10))
        workflow = Workflow(Operator("List what the text claims."), budget=budget)

    Attributes:
        tokens: Tokens read and written.
        calls: Calls of models.
        cost: US dollars. With this limit, a call of a model whose price is unknown is an error.
        seconds: Seconds from the start of the run, given as a number or a `timedelta`; time spent waiting for a
            person's answer does not count.

    Raises:
        InvalidError: A value is not above zero.
    """

    tokens: int | None
    calls: int | None
    cost: float | None
    seconds: float | None

    @known_arguments
    def __init__(
        self,
        tokens: int | None = None,
        calls: int | None = None,
        cost: float | None = None,
        seconds: Duration | None = None,
    ) -> None:
        counts = {"tokens": tokens, "calls": calls}
        limits = {"cost": cost, "seconds": in_seconds(seconds)}
        check_positive("Budget", tuple(counts), **counts, **limits)
        _set(self, **counts, **limits)

    def exceeded(self, usage: Usage, *, by_next: bool = False) -> str:
        """Return the exceeded limit as text; empty if none is exceeded.

        Args:
            usage: Usage so far.
            by_next: True to check before another call, which needs a rest of each limit.
        """
        for unit, used, limit in (
            ("tokens", usage.tokens, self.tokens),
            ("calls", usage.calls, self.calls),
            ("USD", usage.cost, self.cost),
        ):
            if limit is not None and (used > limit or (by_next and used >= limit)):
                return f"{used:.6g} of {limit:g} USD" if unit == "USD" else f"{used:,} of {limit:,} {unit}"
        return ""


ERROR_OUTPUTS = ("error_message", "error_type")
"""Outputs of a message that an `ErrorValues` makes."""


@dataclass(frozen=True, slots=True)
class ErrorValues:
    """Fallback whose message describes the error: its outputs are `ERROR_OUTPUTS` and the given ones.

        from operad import Policy
        from operad.runtime.policies.policy import ErrorValues

        policy = Policy(fallback=ErrorValues({"text": ""}))
        print(ErrorValues({"text": ""}).message(ValueError("no text")).outputs)

    Attributes:
        outputs: Further outputs, by name.
        port: Port that the message takes; None for an operator whose messages take none.
    """

    outputs: Mapping[str, JsonValue] = dataclass_field(default_factory=dict[str, JsonValue])
    port: str | None = None

    def message(self, error: BaseException) -> WorkflowMessage:
        """Return the message for an error. The type is that of the first cause that is not an `OperatorError`."""
        cause = next((each for each in causes(error) if not isinstance(each, OperatorError)), error)
        described = dict(zip(ERROR_OUTPUTS, (describe(error), type(cause).__name__), strict=True))
        ports = None if self.port is None else (self.port,)
        return WorkflowMessage(scratchpad=describe(error), outputs={**own(self.outputs), **described}, ports=ports)


class Executes(Protocol):
    """An operator, or a workflow."""

    @property
    def execute(self) -> Callable[..., Any]:
        """Run the operator or the workflow."""
        ...


class DataclassValue(Protocol):
    """Instance of a dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


class Completes(Protocol):
    """A model."""

    @property
    def complete(self) -> Callable[..., Any]:
        """Answer a conversation."""
        ...


Fallback = Executes | Completes | WorkflowMessage | ErrorValues | str
"""Replacement of an operator whose last attempt failed."""


@dataclass(frozen=True, slots=True, init=False)
class Policy:
    """Policy of an operator: retries, time limits, fallback and cache.

        from operad import Operator, Policy, Timeout

        policy = Policy(retry=3, timeout=Timeout(run=60), fallback="No claims were found.")
        facts = Operator("List what the text claims.", policy=policy)

    None stands for the value of the workflow's policy; False switches a feature off.

    Attributes:
        retry: Retries; a number is short for ``Retry(attempts=…)``.
        timeout: Time limits of an attempt; a number of seconds or a `timedelta` is short for ``Timeout(run=…)``.
        fallback: Replacement after the last attempt failed: another operator or workflow,
            the same operator with another model, a message, a text or another value; a value becomes a message, and
            `ErrorValues` one that describes the error.
        cache: Cache of the operator's messages; with equal input, the operator does not run again.

    Raises:
        InvalidError: A value has another type.
    """

    retry: Retry | Literal[False] | None
    timeout: Timeout | Literal[False] | None
    fallback: Fallback | Literal[False] | None
    cache: Cache | Literal[False] | None

    @known_arguments
    def __init__(
        self,
        retry: Retry | int | Literal[False] | None = None,
        timeout: Timeout | Duration | Literal[False] | None = None,
        fallback: Fallback | JsonValue | BaseModel | DataclassValue | None = None,
        cache: Cache | Literal[False] | None = None,
    ) -> None:
        values: dict[str, Any] = {"retry": retry_of(retry), "timeout": _timeout_of(timeout), "cache": cache}
        for name, kind, wanted in (
            ("retry", Retry, "a Retry or a number of attempts"),
            ("timeout", Timeout, "a number of seconds, a timedelta or Timeout(…)"),
            ("cache", Cache, "Cache(…)"),
        ):
            part = values[name]
            if part is not None and part is not False and not isinstance(part, kind):
                issue = Issue(name, f"expected {wanted}, got {part!r}", f"Policy.{name}")
                raise InvalidError("Policy", [issue])
        _set(self, **values, fallback=_fallback_of(fallback))

    def or_else(self, default: Policy | None) -> Policy:
        """Return this policy, with unset values taken from `default`."""
        if default is None or default is NO_POLICY:
            return self
        unset = {name: getattr(default, name) for name in self.__slots__ if getattr(self, name) is None}
        return replace(self, **unset)

    def __bool__(self) -> bool:
        """Return True if any feature is on."""
        values = (getattr(self, name) for name in self.__slots__)
        return any(value is not None and value is not False for value in values)


_VALUES: tuple[type[Any], ...] = (BaseModel, int, float, list, tuple, dict)


def _fallback_of(given: Any) -> Fallback | Literal[False] | None:
    """Return a fallback; values other than texts become messages."""
    if given is None or given is False or isinstance(given, str | WorkflowMessage | ErrorValues):
        return given
    if hasattr(given, "execute") or hasattr(given, "complete"):
        return given
    is_value = isinstance(given, _VALUES) and given is not True
    if is_value or (is_dataclass(given) and not isinstance(given, type)):
        try:
            return message_of(given)
        except InputError as error:
            raise InvalidError("Policy", [Issue("fallback", str(error), "Policy.fallback")]) from error
    told = f"expected an operator, a model, a message, a text or another value, got {short_repr(given)}"
    raise InvalidError("Policy", [Issue("fallback", told, "Policy.fallback")])


NO_POLICY = Policy()
NO_BUDGET = Budget()


def policy_of(policy: Any, retry: Retry | int | Literal[False] | None, operator_id: str) -> Policy | None:
    """Return the policy of an operator, with the retries that are given besides.

    Raises:
        InputError: The policy has another type, or retries of its own; or the retries are invalid.
    """
    if not isinstance(policy, Policy | None):
        raise InputError(f"operator {operator_id!r}: policy: expected a Policy, got {short_repr(policy)}")
    if retry is None:
        return policy
    if policy is not None and policy.retry is not None:
        raise InputError(f"operator {operator_id!r}: retry: the policy has one, too; give it in one of the two")
    try:
        return Policy(retry=retry).or_else(policy)
    except InvalidError as error:
        wheres = [issue.where.replace("Policy.retry", "Retry.").partition(".")[2] for issue in error.issues]
        faults = [
            f"{where}: {issue.message}" if where else issue.message
            for where, issue in zip(wheres, error.issues, strict=True)
        ]
        raise InputError(f"operator {operator_id!r}: retry: {'; '.join(faults)}") from error
