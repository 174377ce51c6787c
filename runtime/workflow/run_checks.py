"""Checks before a run starts."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress

from operad.runtime.events.run_context import MissingDepsError
from operad.runtime.graph.build import Build
from operad.runtime.graph.call import OperatorCall
from operad.runtime.graph.graph import asking, with_fallbacks
from operad.runtime.graph.operator import BaseOperator
from operad.runtime.models.resolve import NoModelError
from operad.runtime.policies.policy import NO_POLICY
from operad.runtime.reasoning.reasoner import Reasoner
from operad.runtime.values.errors import InputError, InvalidError, Issue, OperadError, did_you_mean, shorten
from operad.runtime.values.message import Job
from operad.runtime.values.secret import missing_text


def check_start(
    build: Build, call: OperatorCall, unfinished: Collection[BaseOperator] | None, *, has_workers: bool
) -> None:
    """Check an outermost run before it starts.

    Args:
        unfinished: The operators and evaluators that a stored run has not finished; None for all.
        has_workers: True if workers run the operators, with their own models.

    Raises:
        InvalidError: An operator reads the messages of an operator that is not in the workflow, or an instruction names
            neither an operator before it nor an input of the job.
        InputError: A model is not configured, the deps or secrets are missing, or no operator reads an input of the job.
    """
    if build.reads:
        _check_reads(build)
    if unfinished is None:
        if call.job.inputs:
            _check_inputs(build, call.job)
        _check_names(build, call)
    check_resume(build, call, unfinished, has_workers=has_workers)


def check_resume(
    build: Build, call: OperatorCall, unfinished: Collection[BaseOperator] | None, *, has_workers: bool
) -> None:
    """Check the part of a run's input that is not stored: its models, secrets and deps; see `check_start`."""
    if not has_workers:
        _check_models(build, call.reasoner, unfinished)
        check_secrets(build, unfinished)
    if call.deps is None:
        check_deps(build, unfinished)


def _check_inputs(build: Build, job: Job) -> None:
    """Raise InputError if the job has inputs that no operator reads, such as a misspelt one."""
    read = None
    with suppress(InvalidError):  # an edit broke a nested workflow; its run reports it
        read = None if job._of_data else build.inputs_read()  # pyright: ignore[reportPrivateUsage]
    if read is not None and (unread := [name for name in job.inputs if name not in read]):
        named = ", ".join(f"{name!r}{did_you_mean(name, sorted(read - job.inputs.keys()))}" for name in unread)
        raise InputError(
            f"workflow {build.name!r}: no operator reads these inputs of the job: {named}; inputs that are read: "
            f"{shorten(sorted(read)) or 'none'}. A function reads the inputs that its parameters name, or all of them "
            "from `job.inputs`, with a parameter `job: Job`"
        )


def _check_names(build: Build, call: OperatorCall) -> None:
    """Raise InvalidError if an instruction names neither an input of the job nor an operator before its operator."""
    issues = list[Issue]()
    with suppress(InvalidError):  # an edit broke a nested workflow; its run reports it
        issues = build.check_inputs(call.job.inputs, [message.operator_id for message in call.messages])
    if issues:
        raise InvalidError(f"workflow {build.name!r} cannot do this job", issues)


def check_deps(build: Build, unfinished: Collection[BaseOperator] | None = None) -> None:
    """Check a run without deps.

    Args:
        unfinished: The operators and evaluators that a stored run has not finished; by default all.

    Raises:
        MissingDepsError: An operator or a fallback, also in a nested workflow, requires deps.
    """
    taking, to_visit = build.taking_deps, [*build.containers]
    if unfinished is not None:
        policies = [build.graph.policies.get(operator.get_id(), NO_POLICY) for operator in unfinished]
        to_visit = with_fallbacks(unfinished, policies)
        taking = next((each for each in to_visit if each.deps_type), None)
    seen = set[int]()
    while to_visit and taking is None:
        for inner in to_visit.pop().runs_workflows or ():
            if id(inner) in seen:
                continue
            seen.add(id(inner))
            with suppress(InvalidError):  # an edit broke a nested workflow; its run reports it
                inside: Build = inner.built()
                taking = taking or inside.taking_deps
                to_visit += inside.containers
    if taking is not None:
        raise MissingDepsError.of(taking.get_id(), taking.deps_type)


def check_secrets(build: Build, unfinished: Collection[BaseOperator] | None = None) -> None:
    """Check that the secrets which the operators of a run send have values, also in nested workflows.

    Args:
        unfinished: The operators and evaluators that a stored run has not finished; by default all.

    Raises:
        InputError: Secrets have no value; the message names all of them.
    """
    missing: dict[str, None] = {}
    builds, seen = [build], set[int]()
    while builds:
        inner = builds.pop()
        skipped = (
            () if unfinished is None or inner is not build else {id(each) for each in _finished(build, unfinished)}
        )
        for operator in inner.sending_secrets:
            if id(operator) not in skipped:
                missing |= dict.fromkeys(operator.missing_secrets())
        for operator in inner.containers:
            for nested in operator.runs_workflows or () if id(operator) not in skipped else ():
                if id(nested) not in seen:
                    seen.add(id(nested))
                    with suppress(InvalidError):  # an edit broke a nested workflow; its run reports it
                        builds.append(nested.built())
    if missing:
        raise InputError(f"workflow {build.name!r}: {missing_text(missing)}")


def _finished(build: Build, unfinished: Collection[BaseOperator]) -> list[BaseOperator]:
    return [node.operator for node in build.nodes if node.operator not in unfinished]


def _check_reads(build: Build) -> None:
    """Raise InvalidError if an operator reads the message of an operator that is not in the workflow."""
    known = build.graph.operators
    issues = [
        Issue(
            "unknown-operator",
            f"reads the message of {read!r}, which is not an operator{did_you_mean(read, known)}",
            build.plan.ids[node],
        )
        for node, reads in build.reads.items()
        for read in reads
        if read not in known
    ]
    if issues:
        raise InvalidError(f"workflow {build.name!r} cannot be built", issues)


def _check_models(build: Build, reasoner: Reasoner, unfinished: Collection[BaseOperator] | None) -> None:
    """Check the model of a run and the models of its operators, for a caller in Python.

    Args:
        unfinished: The operators and evaluators that a stored run has not finished; None for all.
    """
    try:
        if asking := build.may_ask if unfinished is None else unfinished:
            check_reasoner(reasoner, asking)
        for operator in build.with_models:
            if unfinished is None or operator in unfinished:
                operator.check_model()
    except NoModelError as error:
        raise InputError(error.in_python) from None


def check_reasoner(reasoner: Reasoner, operators: Collection[BaseOperator]) -> None:
    """Check that a reasoner has a model that suits the operators that are known to ask it, also in nested workflows.

    Raises:
        InputError: The reasoner has no model, or a too small one.
    """
    check: Callable[[], None] | None = getattr(reasoner, "check_model", None)
    if check is not None:
        try:
            check()
        except OperadError:
            if any(asking(operators)):
                raise
            return
    if not getattr(reasoner, "writes_prose", True):
        for operator in asking(operators):
            operator.check_reasoner(reasoner)
