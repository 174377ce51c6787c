"""Policies and budgets from a configuration file."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from operad.configs.faults import Faults
from operad.configs.imports import Modules
from operad.configs.models import model_of, with_defaults
from operad.configs.schema import (
    ERRORS,
    BudgetSpec,
    CacheSpec,
    FallbackSpec,
    GuardSpec,
    ModelSpec,
    OperatorSpec,
    PolicySpec,
    ReplacementSpec,
    RetrySpec,
)
from operad.operators import Operator
from operad.runtime.graph.operator import BaseOperator
from operad.runtime.models.model import Model
from operad.runtime.policies.cache import Cache
from operad.runtime.policies.policy import Budget, Policy, Retry, Timeout
from operad.runtime.values.document import Path_
from operad.runtime.values.errors import did_you_mean
from operad.runtime.values.message import WorkflowMessage

MakeOperator = Callable[[str | OperatorSpec, Path_, type[Operator], ModelSpec | None], "BaseOperator | None"]
"""Builds the operator that is named or defined at a path: its class, and the model of its expert."""


class Policies:
    """Builder of policies from the sections of a file.

    Args:
        folder: Folder of the file.
        faults: Collected faults.
        make_operator: Builds the operators that fallbacks name.
        modules: What may be opened.
    """

    def __init__(self, folder: Path, faults: Faults, make_operator: MakeOperator, modules: Modules) -> None:
        self._folder = folder
        self._faults = faults
        self._make_operator = make_operator
        self._modules = modules
        self._caches: dict[tuple[str | None, float | None], Cache] = {}

    def of(
        self,
        spec: GuardSpec,
        path: Path_,
        default: Policy,
        model: ModelSpec | None,
        *,
        ports: Sequence[str] = (),
        base: type[Operator] = Operator,
    ) -> Policy:
        """Return the policy of the mapping at `path`; unset values come from `default`.

        Args:
            spec: The mapping.
            path: Path of the mapping.
            default: Policy for values that the mapping does not set.
            model: The operator's model, whose endpoint a fallback shares.
            ports: The operator's ports.
            base: Required class of a replacement operator.
        """
        fallback = self._fallback(spec.fallback, (*path, "fallback"), model, ports, base) if spec.fallback else None
        policy = Policy(
            retry=_retry(spec.retry) if spec.retry else None,
            timeout=Timeout(**spec.timeout.model_dump()) if spec.timeout else None,
            fallback=fallback,
        ).or_else(default)
        if ports and not _takes_a_port(policy.fallback):
            message = f"the operator has ports, but its fallback chooses none of: {', '.join(ports)}"
            self._faults.report((*path, "fallback" if spec.fallback else "ports"), "port", message)
        return policy if not isinstance(spec, PolicySpec) else self._with_cache(policy, spec, path)

    def _with_cache(self, policy: Policy, spec: PolicySpec, path: Path_) -> Policy:
        if spec.cache is None:
            return policy
        cache = self._cache(CacheSpec() if spec.cache is True else spec.cache, path) if spec.cache else None
        return replace(policy, cache=cache)

    def _cache(self, spec: CacheSpec, path: Path_) -> Cache:
        file = self._folder / Path(spec.path).expanduser() if spec.path else None
        if file and not self._modules.opens(file):
            return Cache(max_age=spec.max_age)
        if file and not file.parent.is_dir():
            self._faults.report((*path, "cache", "path"), "value", f"there is no folder {str(file.parent)!r}")
        key = (str(file) if file else None, spec.max_age)
        return self._caches.setdefault(key, Cache(file, max_age=spec.max_age))

    def _fallback(
        self, spec: FallbackSpec, path: Path_, model: ModelSpec | None, ports: Sequence[str], base: type[Operator]
    ) -> BaseOperator | Model | WorkflowMessage | None:
        if spec.operator is not None:
            return self._make_operator(spec.operator, (*path, "operator"), base, model)
        if spec.model is not None:
            return model_of(with_defaults(spec.model, model), (*path, "model"), self._faults)
        if base is not Operator:
            message = (
                "a message cannot replace a verdict: let an evaluator fall back to another one, or to another model"
            )
            self._faults.report(path, "value", message)
        if ports and spec.port is not None and spec.port not in ports:
            self._faults.report((*path, "port"), "unknown-port", no_such_port(spec.port, ports))
        return _message(spec).changed(ports=(spec.port,) if spec.port else None)


def rejected_to(spec: str | ReplacementSpec) -> Any:
    """Return the effect of a rejected result, for `Workflow(on_reject=…)`."""
    return spec if isinstance(spec, str) else _message(spec)


def _message(spec: FallbackSpec | ReplacementSpec) -> WorkflowMessage:
    text = json.dumps(spec.outputs, ensure_ascii=False) if spec.outputs else ""
    return WorkflowMessage(scratchpad=text if spec.text is None else spec.text, outputs=spec.outputs or {})


def _takes_a_port(fallback: object) -> bool:
    """Return True if a fallback can choose a port; after one that cannot, all branches would run."""
    if isinstance(fallback, WorkflowMessage):
        return fallback.ports is not None
    if type(fallback) is Operator:
        return bool(fallback.ports)  # its own fallback is checked where it is defined
    own = fallback.policy if isinstance(fallback, BaseOperator) and not fallback.ports else None
    return own is None or _takes_a_port(own.fallback)


def no_such_port(port: str, known: Sequence[str]) -> str:
    """Return the message on an unknown port, with the nearest known name."""
    return f"the operator has no port {port!r}{did_you_mean(port, known)}; it has: {', '.join(known) or 'none'}"


def make_budget(spec: BudgetSpec | None) -> Budget | None:
    """Return the budget that a file sets; None if it sets none."""
    return Budget(**spec.model_dump()) if spec else None


def _retry(spec: RetrySpec) -> Retry:
    on = tuple(ERRORS[name] for name in spec.on) if spec.on else None
    return Retry(attempts=spec.attempts, first_delay=spec.first_delay, max_delay=spec.max_delay, on=on)
