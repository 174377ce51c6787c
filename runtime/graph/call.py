"""Inputs of operators, and of runs in the forms that users write."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self, TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace
from pydantic import BaseModel, JsonValue, ValidationError
from typing_extensions import TypedDict

from operad.runtime.models.model import Model
from operad.runtime.policies.cache import cache_key
from operad.runtime.reasoning.exchange import Rejection
from operad.runtime.reasoning.reasoner import Reasoner
from operad.runtime.values.arguments import short_repr
from operad.runtime.values.errors import InputError, InvalidError, Issue, shorten
from operad.runtime.values.json_like import JsonLike, as_json, json_value
from operad.runtime.values.message import Job, WorkflowMessage
from operad.runtime.values.questions import Question
from operad.runtime.values.step_record import StepRecord

JobLike = Job | str | Mapping[str, JsonLike] | BaseModel
"""Input of a run: a job; a text, which is the job's goal; or a dict or a pydantic model, which hold the job's inputs."""

ReasonerLike = Reasoner | Model | str | None
"""Reasoner of a run: a reasoner, a model or its name; None for the workflow's own."""


class StreamOptions(TypedDict, total=False):
    """Options of a run that is streamed by `Workflow.stream`.

        options: StreamOptions = {"run_id": "moon"}
        for event in flow.stream("Is this so? The moon has air.", **options):
            print(event)

    Attributes:
        model: Model of this run: a model, its name or a reasoner; by default the workflow's `model`.
        run_id: The run's id; a new one by default.
        deps: Any object, such as a database connection, that functions and tools get as `RunContext.deps`, also in
            nested workflows and maps. It is not stored.
    """

    model: ReasonerLike
    run_id: str | None
    deps: object


class RunOptions(StreamOptions, total=False):
    """Options of a run, for `Workflow.run`, `arun`, `start` and `stream_text`: those of `StreamOptions`, and a lesson.

        options: RunOptions = {"lesson": "Name the sources."}
        print(flow.run("Is this so? The moon has air.", **options).text)

    Attributes:
        lesson: Lesson from an earlier attempt.
    """

    lesson: str | None


def one_of(reasoner: ReasonerLike, model: ReasonerLike) -> ReasonerLike:
    """Return the reasoner of a run, which is given as a positional argument or as the keyword `model`.

    Raises:
        InputError: Both are given.
    """
    if reasoner is not None and model is not None:
        raise InputError("the run's model is given twice: as the second argument and as model=…; give one of the two")
    return model if reasoner is None else reasoner


def job_of(job: JobLike, *, of_data: bool = False) -> Job:
    """Return a job for a `Job`, a text, a dict or a pydantic model.

    Args:
        job: The value.
        of_data: True if the names of a dict are not written by a person, so that none can be misspelt.

    Raises:
        InputError: The value is none of these, or an input is not a JSON value.
    """
    if isinstance(job, Job):
        return job
    if isinstance(job, str):
        return Job(goal=job)
    try:
        inputs = as_json(job) if isinstance(job, BaseModel) else job  # `Job` converts a dict
    except ValueError as error:
        raise InputError(f"the job: {error}") from error
    if not isinstance(inputs, Mapping):
        raise InputError(f"expected a text, a dict of inputs, a pydantic model or a Job; got {short_repr(job)}")
    try:
        made = Job.model_validate({"goal": "", "inputs": inputs})
        made._of_data = of_data or isinstance(job, BaseModel)  # pyright: ignore[reportPrivateUsage]
        return made
    except ValidationError as error:
        fault = error.errors()[0]
        where = ".".join(map(str, fault["loc"]))
        raise InputError(f"{where}: the inputs of a job are JSON values by name: {fault['msg']}") from error


def answers_of(answers: JsonLike, run_id: str, questions: Callable[[], Sequence[Question]]) -> dict[str, JsonValue]:
    """Return a user's answers as a dict by question id.

    Args:
        answers: A dict by question id; any other value is the answer to the only open question.
        questions: Function that returns the open questions of the run; called only for a value that is not a dict.

    Raises:
        InputError: The value is not a dict, and not exactly one question is open.
    """
    if isinstance(answers, Mapping):
        return {question_id: json_value(value) for question_id, value in answers.items()}
    open_ids = [question.id for question in questions()]
    if len(open_ids) == 1:
        return {open_ids[0]: json_value(answers)}
    asked = f"it asks {shorten([repr(each) for each in open_ids])}" if open_ids else "it has no open question"
    form = ", ".join(f"{each!r}: …" for each in open_ids[:2] or ["QUESTION"])
    raise InputError(
        f"run {run_id!r}: the answer {answers!r:.100} names no question, and {asked}; answers are a dict by the ids of "
        f"the questions: {{{form}}}"
    )


def new_answers(run_id: str, answers: Mapping[str, JsonValue], stored: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the answers that are not stored yet, so that a call which was interrupted can be repeated.

    Args:
        answers: Answers by question id.

    Raises:
        InvalidError: A question has another answer already.
    """
    for question_id, value in answers.items():
        if question_id in stored and stored[question_id] != value:
            fault = f"was answered already; to continue the run: resume({run_id!r}, {{}})"
            raise InvalidError("the answers", [Issue("unknown-question", fault, question_id)])
    return {question_id: value for question_id, value in answers.items() if question_id not in stored}


class OperatorCall(Struct, frozen=True):
    """Input of one call of an operator, or of a workflow inside an operator.

        call = OperatorCall(reasoner, Job("Check the claim."), lesson="Name your sources.")
        message = await check.run(call)

    Attributes:
        reasoner: The reasoner of the run.
        job: The job that the workflow works on.
        messages: The messages of the operator's predecessors.
        previous: The messages of earlier experts.
        lesson: Lessons for the operator from the verdicts of earlier rounds.
        transcript: For an evaluator: the records of the operators, in the order of the graph, also of those inside of
            others. For an operator behind a port: the records of the operators with a model that have handed over to it,
            each after the results that it was given.
        judged: For an evaluator: the message that it judges.
        deps: Object that the caller gave to the run, as `RunContext.deps`; never stored.
        rejection: Rejected answer of the operator in the last round; None if it was not rejected. For an evaluator: its
            last verdict.
        pinned: For a run: messages that operators give in place of running, by the path of their ids.
    """

    reasoner: Reasoner
    job: Job
    messages: tuple[WorkflowMessage, ...] = ()
    previous: tuple[WorkflowMessage, ...] = ()
    lesson: str | None = None
    transcript: tuple[StepRecord, ...] = ()
    judged: WorkflowMessage | None = None
    deps: Any = None
    rejection: Rejection | None = None
    pinned: Mapping[str, WorkflowMessage] | None = None

    @property
    def holds_values(self) -> bool:
        """True if the call may hold values that an operator could change; most calls are texts, which cannot change."""
        has_more = self.job.inputs or self.previous or self.transcript or self.judged
        return bool(has_more) or any(message.holds_values for message in self.messages)

    def own(self) -> Self:
        """Return a call whose messages and job the operator may change without a change for others."""
        if not self.holds_values:
            return self
        return replace(
            self,
            job=self.job.own(),
            messages=tuple([message.own() for message in self.messages]),
            previous=tuple([message.own() for message in self.previous]),
            transcript=tuple([step.own() for step in self.transcript]),
            judged=self.judged and self.judged.own(),
        )

    def key(self, operator: object) -> str | None:
        """Return the cache key of an operator's answer to this call, which is the same in every run.

        The content of the job's files is part of the key, so they are read.

        Returns:
            The key, or None if a part of the call has no JSON form, or if the run has deps.

        Raises:
            InputError: The operator, or the reasoner, has no fingerprint.
        """
        if self.deps is not None:
            return None  # the answer may depend on them
        caller = cache_key(operator, self.reasoner)
        try:
            return cache_key(
                caller, self.job, self.messages, self.previous, self.lesson, self.rejection, *self.transcript
            )
        except InputError:
            return None


R = TypeVar("R", bound=Callable[..., Any])


def refusing_jobs(run: R) -> R:
    """Decorate the method `run` of an operator: it raises InputError for a job, which belongs to a workflow's `run`."""

    @functools.wraps(run)
    def checked(self: Any, call: Any = None, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(call, OperatorCall):
            class_name = type(self).__name__
            raise InputError(
                f"{class_name}.run(…) got {short_repr(call)}: an operator runs in a workflow: "
                f"Workflow({class_name}(…)).run(…)"
            )
        return run(self, call, *args, **kwargs)

    return cast("R", checked)
