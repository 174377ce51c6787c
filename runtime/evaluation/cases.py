"""Cases of an evaluation, and data sets of cases in Python, YAML and JSON lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, cast

from pydantic import BeforeValidator, Field, JsonValue, ValidationError, model_validator

from operad.runtime.evaluation.checks import Check
from operad.runtime.values.arguments import short_repr
from operad.runtime.values.document import Path_
from operad.runtime.values.errors import InputError, InvalidError, Issue, did_you_mean
from operad.runtime.values.file import FileDescriptor
from operad.runtime.values.json_like import JsonLike, as_json
from operad.runtime.values.json_lines import read_list
from operad.runtime.values.message import Job, WorkflowMessage
from operad.runtime.values.round_trip import message_of
from operad.runtime.values.step_record import StepRecord
from operad.runtime.values.value import Value

MAX_BYTES = 64 * 2**20
"""Maximum size of a file of cases, in bytes."""

MAX_CASES = 100_000
"""Maximum number of cases of a data set."""

MOST_ISSUES = 20
"""Maximum number of issues that an error lists."""

_JOB_KEYS = ("goal", "context", "inputs", "files")
"""Keys of a case that are fields of its job."""

_STEP_FIELDS = frozenset(StepRecord.model_fields)


def _message(value: Any) -> Any:
    """Return the message of an operator that is given as a text, as a message, or as another JSON value."""
    if isinstance(value, WorkflowMessage):
        return value
    if isinstance(value, dict) and "scratchpad" in value:
        return WorkflowMessage.model_validate(value)
    return message_of(value)


def _steps(value: Any) -> Any:
    """Return the records of operators that are given as a list, or as answers or fields of records by id."""
    if isinstance(value, Mapping):
        given = cast("Mapping[str, Any]", value).items()
        fields = [(key, each if _is_record(each) else {"message": each}) for key, each in given]
        value = [{"operator_id": key, **each} for key, each in fields]
    if not isinstance(value, list | tuple):
        raise ValueError("write the answers of the operators by their ids")
    records: list[StepRecord] = []
    for each in cast("Sequence[Any]", value):
        if isinstance(each, StepRecord):
            records.append(each)
            continue
        if not isinstance(each, Mapping):
            raise ValueError("write the answers of the operators by their ids")
        record = dict(cast("Mapping[str, Any]", each))
        message: WorkflowMessage = _message(record.get("message", ""))
        record["message"] = message.changed(operator_id=str(record.get("operator_id", "")))
        records.append(StepRecord.model_validate(record))
    return tuple(records)


def _is_record(value: Any) -> bool:
    names = set(cast("dict[str, Any]", value)) if isinstance(value, dict) else set[str]()
    return bool(names) and names <= _STEP_FIELDS


class Case(Value):
    """Case of an evaluation: a job, and what is known about its result.

        case = Case("moon", job="Is this so? The moon has air.", expected="no", tags=["astronomy"])

    In a file, the fields of the job, ``context``, ``inputs`` and ``files``, may stand beside ``job``, its goal.

    Attributes:
        name: Name of the case, unique in its data set.
        job: The job; a text is its goal. ``inputs=…`` may replace it, also as a text.
        expected: The right output, if it is known.
        checks: Conditions of this case, for its output or for the answers of operators.
        metadata: Further values for evaluators.
        tags: Tags, by which a report groups cases.
        steps: The recorded operators of a run, for a labelled case: their answers by id, or `StepRecord` values.
        accepted: For a labelled case: True if the result of `steps` is right.
        blame: For a labelled case: ids of the operators at fault.
        script: The answers of the model in the recorded run, which `operad.testing.ScriptedModel` plays.
        pinned: Messages that operators give in place of running, by id; of one inside a container, by ``CONTAINER/ID``.
    """

    name: Annotated[str, Field(min_length=1, max_length=200)]
    job: Job
    expected: Annotated[JsonValue, BeforeValidator(as_json)] = None
    checks: tuple[Check, ...] = ()
    metadata: Annotated[dict[str, JsonValue], BeforeValidator(as_json)] = Field(default_factory=dict)
    tags: tuple[str, ...] = ()
    steps: Annotated[tuple[StepRecord, ...], BeforeValidator(_steps)] = ()
    accepted: bool | None = None
    blame: tuple[str, ...] = ()
    script: tuple[dict[str, JsonValue], ...] = ()
    pinned: dict[str, Annotated[WorkflowMessage, BeforeValidator(_message)]] = Field(default_factory=dict)

    _positional: ClassVar[str] = "name"

    if TYPE_CHECKING:  # the fields take what callers write

        def __init__(
            self,
            name: str,
            *,
            job: Job | str | Mapping[str, Any] = "",
            context: str = "",
            inputs: Mapping[str, JsonLike] | str | None = None,
            files: Sequence[FileDescriptor | str | Path] = (),
            expected: JsonLike = None,
            checks: Sequence[Check | Mapping[str, Any]] = (),
            metadata: Mapping[str, JsonLike] | None = None,
            tags: Sequence[str] = (),
            steps: Sequence[StepRecord] | Mapping[str, Any] = (),
            accepted: bool | None = None,
            blame: Sequence[str] = (),
            script: Sequence[Mapping[str, Any]] = (),
            pinned: Mapping[str, Any] | None = None,
        ) -> None: ...

    @model_validator(mode="before")
    @classmethod
    def _with_job(cls, fields: Any) -> Any:
        """Return the fields with one `Job`, which is known by the name of the case."""
        if not isinstance(fields, dict):
            return fields
        fields = cast("dict[str, Any]", fields)
        given: Any = fields.get("job", {})
        if not isinstance(given, str | dict):
            return fields
        job: dict[str, Any] = {"goal": given} if isinstance(given, str) else {**given}
        beside = {key: fields[key] for key in _JOB_KEYS if key in fields}
        if not job and isinstance(beside.get("inputs"), str):  # as in data sets of pydantic-evals
            beside["goal"] = beside.pop("inputs")
        job |= beside
        rest = {key: value for key, value in fields.items() if key not in _JOB_KEYS}
        return {**rest, "job": Job.model_validate({"id": str(fields.get("name", "")), **job})} if job else rest

    def as_dict(self) -> dict[str, Any]:
        """Return the case as JSON values, as a file of cases has it; fields without a value are left out."""
        values = self.model_dump(mode="json", exclude_defaults=True)
        job = self.job.model_dump(mode="json", exclude_defaults=True, exclude={"id", "session_id"})
        found = {"name": self.name, "job": job.pop("goal", ""), **job}
        found |= {"files": [str(file.path) for file in self.job.files]} if self.job.files else {}
        steps = {step.operator_id: _record_as_json(step) for step in self.steps}
        pinned = {key: _message_as_json(message) for key, message in values.get("pinned", {}).items()}
        return {
            **found,
            **{key: value for key, value in values.items() if key not in found},
            **({"steps": steps} if steps else {}),
            **({"pinned": pinned} if pinned else {}),
        }


def _record_as_json(step: StepRecord) -> dict[str, Any]:
    values = step.model_dump(mode="json", exclude_defaults=True, exclude={"operator_id"})
    return {**values, "message": _message_as_json(values.get("message", {}))}


def _message_as_json(message: Mapping[str, Any]) -> JsonValue:
    """Return a message as a file of cases has it: its text, or its fields without those of its run."""
    message = {key: each for key, each in message.items() if key not in ("operator_id", "job_id", "usage")}
    return message["scratchpad"] if message.keys() == {"scratchpad"} else {"scratchpad": "", **message}


class Dataset(Value):
    """Cases of an evaluation.

        dataset = Dataset([Case("moon", job="Is this so? The moon has air.", expected="no")])
        print(len(dataset), dataset.cases[0].expected)  # 1 no

    Attributes:
        cases: The cases, whose names are different.
    """

    cases: tuple[Case, ...]

    _positional: ClassVar[str] = "cases"

    if TYPE_CHECKING:

        def __init__(self, cases: Sequence[Case | Mapping[str, Any]]) -> None: ...

    @model_validator(mode="after")
    def _check_names(self) -> Dataset:
        names = Counter(case.name for case in self.cases)
        doubles = [name for name, count in names.items() if count > 1]
        if doubles:
            raise ValueError(f"several cases have the name {', '.join(map(repr, doubles[:5]))}; give each its own")
        return self

    def __len__(self) -> int:
        return len(self.cases)

    def __iter__(self) -> Iterator[Case]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return iter(self.cases)

    @classmethod
    def of(cls, cases: CasesLike) -> Dataset:
        """Return the data set of a file, of a list of cases, or the data set itself.

        Raises:
            InputError: The value is none of these, or the file cannot be read; or there are no cases.
            InvalidError: Cases of the file are not valid; the first issues are listed with their lines.
        """
        if isinstance(cases, Dataset):
            found = cases
        elif isinstance(cases, str | Path):
            found = cls.load(cases)
        elif isinstance(cases, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance]
            found = Dataset(cases=tuple(cases))
        else:
            raise InputError(f"cases: expected a list of cases, a Dataset or a file; got {short_repr(cases)}")
        if not found.cases:
            raise InputError("there are no cases; an evaluation needs at least one")
        return found

    @classmethod
    def load(cls, path: str | Path) -> Dataset:
        """Read a file of cases: JSON lines (.jsonl), or YAML with a list, which may stand under ``cases``.

            dataset = Dataset.load("cases.jsonl")

        Raises:
            InputError: The file does not exist, is empty, too large or not text.
            InvalidError: Cases are not valid; the first issues are listed with their lines.
        """
        unread: dict[Path_, str] = {}
        document = read_list(path, "cases", unread, MAX_BYTES)
        items: Any = document.data.get("cases")
        issues = [Issue("json", message, document.where(place)) for place, message in unread.items()]
        issues += [
            Issue("unknown-key", f"there is no key {key!r}{did_you_mean(key, ['cases'])}", document.where((key,)))
            for key in document.data
            if key != "cases"
        ]
        if not isinstance(items, list) or not items:
            raise InvalidError(str(path), [*issues, Issue("cases", "has no list of cases", str(path))])
        if len(cast("list[Any]", items)) > MAX_CASES:
            raise InputError(f"{path}: has {len(cast('list[Any]', items)):,} cases; the maximum is {MAX_CASES:,}")
        cases: list[Case] = []
        first: dict[str, int] = {}
        folder = Path(path).parent
        for number, item in enumerate(cast("list[Any]", items)):
            place: Path_ = ("cases", number)
            if place in unread:
                continue
            try:
                case = Case.model_validate(_with_files(item, folder))
            except ValidationError as error:
                issues += [
                    _issue(each, document.where((*place, *each["loc"][:1]) if each["loc"] else place))
                    for each in error.errors()
                ]
                continue
            except (InputError, ValueError, RecursionError) as error:
                issues.append(Issue("value", str(error), document.where(place)))
                continue
            if first.setdefault(case.name, number) != number:
                issues.append(
                    Issue("duplicate-name", f"another case has the name {case.name!r}", document.where(place))
                )
            cases.append(case)
        if issues:
            more = f" (the first {MOST_ISSUES} of {len(issues)})" if len(issues) > MOST_ISSUES else ""
            raise InvalidError(f"{path}{more}", issues[:MOST_ISSUES])
        return cls(cases=tuple(cases))


CasesLike = Dataset | Sequence[Case | Mapping[str, Any]] | str | Path
"""Cases as callers give them: a `Dataset`, a list of cases, or the path of a file."""


def _issue(error: Any, where: str) -> Issue:
    """Return an error of a case as an issue."""
    path = ".".join(map(str, error["loc"]))
    if error["type"] == "extra_forbidden" and len(error["loc"]) == 1:
        return Issue("unknown-key", f"a case has no {path!r}{did_you_mean(path, Case.model_fields)}", where)
    return Issue("value", f"{path or 'the case'}: {error['msg']}", where)


def _with_files(item: Any, folder: Path) -> Any:
    """Return an item of a file with the paths of its files, which must be in the folder of the file."""
    if not isinstance(item, dict):
        raise ValueError("a case is an object with a name and a job")
    fields = cast("dict[str, Any]", item)
    job = fields.get("job")
    if isinstance(job, dict):
        fields = {
            **{key: each for key, each in fields.items() if key != "job"},
            "job": "",
            **cast("dict[str, Any]", job),
        }
    return {**fields, "files": [_inside(each, folder) for each in fields["files"]]} if fields.get("files") else fields


def _inside(name: Any, folder: Path) -> str:
    if not isinstance(name, str):
        raise ValueError("files: write their paths, as texts")
    if not (folder / name).resolve().is_relative_to(folder.resolve()):
        raise ValueError(f"files: {name!r} is outside of the folder of the cases; copy it there")
    return str(folder / name)
