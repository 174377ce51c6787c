"""Proposals of changes by a model, which is shown the workflow, its failures and earlier changes."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, get_args

from pydantic import Field, ValidationError

from operad.configs.optimise.edits import Data, Operation
from operad.configs.optimise.tasks import Case
from operad.configs.optimise.trial import Account, Result
from operad.operators import Operator
from operad.runtime.reasoning.reasoner import Reasoner
from operad.runtime.values.errors import AnswerError
from operad.runtime.values.message import Job
from operad.runtime.values.schema import AnswerSchema, SchemaMismatch
from operad.runtime.values.value import Value
from operad.runtime.workflow.workflow import BuiltinWorkflow

MAX_OPERATIONS = 5
"""Maximum number of operations of a proposal."""

MAX_FAILURES = 5
"""Maximum number of failures shown to the model."""

MAX_BLAMED = 3
"""Maximum number of blamed operators shown to the model; those that were blamed most are shown."""

MAX_TRIED = 10
"""Maximum number of earlier changes shown to the model; the latest are shown."""

MAX_SHOWN = 800
"""Maximum number of characters shown of a task, an answer, a reason or an earlier instruction."""

MAX_FAULT = 2_000
"""Maximum number of characters of the faults of a proposal, as told to the model."""

INSTRUCTION = f"""\
You improve a workflow of operators, each of which asks a language model. The inputs are the workflow, its score from 0 \
to 1, tasks on which it failed, the operators that its evaluator blamed most, with the lessons for them, and changes to \
this workflow that were tried before, with the scores that they led to. Rejected right answers, and additional tokens, \
lower the score.

Propose one change, made of at most {MAX_OPERATIONS} operations, that raises the score on all tasks of this kind, not only on \
those shown. Write requirements that the failures and the lessons show into the instructions of the operators that are at \
fault, but never the answer to a single task. Do not repeat a change that was tried. In an instruction, a name in braces \
stands for an input of the task, or for the answer of an operator before it; keep these names, and double the braces of a \
name that is text.

In `reasoning`, say why the workflow fails and what would help. The `operations` are applied together, in their order, or \
not at all. Everything else of the workflow, such as the form of an operator's output, stays as it is."""


def _operation_schema(kind: type[Value]) -> dict[str, Any]:
    schema = kind.model_json_schema()
    fields = {
        name: {key: field[key] for key in field if key != "title"} for name, field in schema["properties"].items()
    }
    return {
        "type": "object",
        "description": schema["description"],
        "properties": fields,
        "required": list(fields),
        "additionalProperties": False,
    }


def proposal_schema(kinds: Iterable[type[Value]]) -> Mapping[str, Any]:
    """Return the JSON Schema of a proposal of operations of some kinds."""
    return {
        "type": "object",
        "properties": {
            "reasoning": {"type": "string"},
            "operations": {"type": "array", "items": {"anyOf": [_operation_schema(kind) for kind in kinds]}},
        },
        "required": ["reasoning", "operations"],
        "additionalProperties": False,
    }


SCHEMA: Mapping[str, Any] = proposal_schema(get_args(Operation))
"""JSON Schema of a proposal, as shown to the model. Operations are validated afterwards, for better messages."""

_LENIENT = AnswerSchema.unchecked(
    {**SCHEMA, "properties": {"reasoning": {"type": "string"}, "operations": {"type": "array"}}}
)


class Proposal(Value):
    """Proposal of a model.

    Attributes:
        reasoning: Reason for the change.
        operations: Operations of the change.
    """

    reasoning: str
    operations: Annotated[
        tuple[Annotated[Operation, Field(discriminator="op")], ...], Field(min_length=1, max_length=MAX_OPERATIONS)
    ]


def failures(cases: Sequence[Case], results: Mapping[str, Result], seed: str) -> list[Data]:
    """Return the tasks with the lowest scores, as shown to the model; of equal ones, some are chosen at random."""
    failed = [case for case in cases if case.id in results and results[case.id].score < 1]
    random.Random(seed).shuffle(failed)  # noqa: S311 - a lot, no secret
    failed.sort(key=lambda case: results[case.id].score)
    return [
        {
            "job": cut(case.job.goal),
            **({"context": cut(case.job.context)} if case.job.context else {}),
            **({"inputs": cut(json.dumps(case.job.inputs, ensure_ascii=False))} if case.job.inputs else {}),
            "answer": cut(results[case.id].answer),
            "score": results[case.id].score,
            "reason": cut(results[case.id].reason),
        }
        for case in failed[:MAX_FAILURES]
    ]


def blamed(results: Iterable[Mapping[str, Sequence[str]]]) -> list[Data]:
    """Return the operators that were blamed most, with their most frequent lessons, as shown to a model."""
    counts: Counter[str] = Counter()
    lessons: dict[str, Counter[str]] = {}
    for by_operator in results:
        for operator, told in by_operator.items():
            counts[operator] += 1
            lessons.setdefault(operator, Counter()).update(dict.fromkeys(told, 1))
    return [
        {"operator": operator, "runs": runs, "lessons": [cut(each) for each, _ in lessons[operator].most_common(5)]}
        for operator, runs in counts.most_common(MAX_BLAMED)
    ]


def attempts(score: float, tried: Sequence[tuple[Sequence[Operation], float]], refused: Sequence[str]) -> list[Data]:
    """Return earlier changes of the same workflow and their scores, as shown to a model.

    Args:
        tried: Changes, and the scores that they led to.
        refused: Reasons why other changes were refused.
    """
    scored = [
        {
            "operations": [_shortened(operation) for operation in operations],
            "score": round(after, 3),
            "effect": "better" if after > score else "worse" if after < score else "none",
        }
        for operations, after in tried[-MAX_TRIED:]
    ]
    return [*scored, *({"could not be used": cut(reason)} for reason in refused[-MAX_TRIED:])]


async def propose(
    shown: Data, reasoner: Reasoner, account: Account, lessons: Sequence[str], schema: Mapping[str, Any] = SCHEMA
) -> Proposal:
    """Ask a model for a change.

    Args:
        shown: The workflow, its score, its failures and earlier changes.
        account: Account of the usage.
        lessons: Faults of earlier answers to the same question.
        schema: JSON Schema of a proposal.

    Raises:
        AnswerError: The answer is not a proposal.
        OperatorError: The reasoner failed.
    """
    workflow = BuiltinWorkflow(name="proposer", listeners=[account])
    workflow.add_operator(Operator(INSTRUCTION, id="proposer", output=schema))
    lesson = "\n".join(f"Your last proposal cannot be used: {fault}" for fault in lessons)
    job = Job(goal="Propose a change to the workflow in the inputs.", inputs=shown)
    message = await workflow.aexecute(job, reasoner, lesson=lesson or None)
    try:
        return Proposal.model_validate(_LENIENT.validate(message.scratchpad))
    except SchemaMismatch as mismatch:
        raise AnswerError(cut(str(mismatch), MAX_FAULT)) from mismatch
    except ValidationError as error:
        raise AnswerError(cut("; ".join(map(_problem_text, error.errors())), MAX_FAULT)) from error


def cut(text: str, most: int = MAX_SHOWN) -> str:
    """Return a text, shortened to its beginning if it is longer than `most` characters."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most:,} more characters)"


def _shortened(operation: Operation) -> Data:
    return {name: cut(value) if isinstance(value, str) else value for name, value in operation.model_dump().items()}


def _problem_text(problem: Any) -> str:
    place = ".".join(str(part) for part in problem["loc"])
    return f"{place}: {problem['msg'].removeprefix('Value error, ')}"
