"""Arguments of `Operator`, and their checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import ValidationError
from typing_extensions import TypedDict

from operad.operators.answer_check import Check
from operad.operators.config import OperatorConfig
from operad.operators.instruction import InstructionFunction
from operad.runtime.knowledge.knowledge import KnowledgeBase
from operad.runtime.models.model import Model
from operad.runtime.models.settings import NO_SETTINGS, ModelSettings, ThinkingLevel
from operad.runtime.policies.policy import Policy, Retry
from operad.runtime.reasoning.reasoner import Reasoner
from operad.runtime.reasoning.task import Example
from operad.runtime.tools.toolkit import Action, Toolkit, Tools
from operad.runtime.values.arguments import ArgumentError, short_repr
from operad.runtime.values.errors import InputError, InvalidError, Issue
from operad.runtime.values.output import Output
from operad.runtime.values.schema import AnswerSchema
from operad.runtime.values.schema_check import check_schema
from operad.runtime.values.value import wrong_arguments


class ConfigOptions(TypedDict, total=False):
    """Options of an operator that is given an `OperatorConfig`."""

    toolkit: Toolkit | None
    knowledge_base: KnowledgeBase | None
    model: Model | Reasoner | str | None
    policy: Policy | None
    retry: Retry | int | Literal[False] | None


class TextOptions(ConfigOptions, total=False):
    """Options of an operator that is given its instruction as text, except its `output`."""

    id: str
    tools: Tools
    actions: Sequence[Action]
    examples: Sequence[Example]
    ports: Sequence[str]
    memory: bool
    temperature: float | None
    thinking: ThinkingLevel | None
    settings: ModelSettings
    max_turns: int | None
    check: Check | None


def config_of(
    class_name: str, config: OperatorConfig | str | InstructionFunction, arguments: Mapping[str, Any]
) -> tuple[OperatorConfig, Output[Any]]:
    """Return the configuration from the arguments of an operator, and the type of its answers."""
    if isinstance(config, OperatorConfig):
        if given := [name for name, value in arguments.items() if value is not None and value not in ("", (), [])]:
            raise InputError(
                f"{class_name}(config): {', '.join(given)} belong in the OperatorConfig; or give the instruction as "
                f"text: {class_name}('…', {given[0]}=…)"
            )
        return config, Output(str) if not config.output_schema else Output()
    if not isinstance(config, str) and (not callable(config) or isinstance(config, type)):
        raise InputError(
            f"{class_name}(…) expects an instruction as text, a function that returns it, or an OperatorConfig; got "
            f"{short_repr(config)}"
        )
    output = Output.of(arguments["output"])
    fields = {name: value for name, value in arguments.items() if name != "output" and (name != "id" or value)}
    if isinstance(arguments["ports"], str):
        raise InputError(f"{class_name}(…): ports: expected a list of names, got {short_repr(arguments['ports'])}")
    try:
        return OperatorConfig.model_validate(
            {"instruction": config, "output_schema": output.schema.text, **fields}
        ), output
    except ValidationError as error:
        raise wrong_arguments(error, f"{class_name}(…)", list(arguments)) from error


def settings_of(class_name: str, settings: ModelSettings, **single: Any) -> dict[str, ModelSettings]:
    """Return the settings of an operator, with the single ones in place of those of the same name; empty without any."""
    if not isinstance(settings, ModelSettings):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(f"{class_name}(…): settings: expected ModelSettings(…), got {short_repr(settings)}")
    try:
        merged = ModelSettings(**single).over(settings)
    except ArgumentError as error:
        raise ArgumentError(str(error).replace("ModelSettings(", f"{class_name}(", 1)) from error
    return {} if merged == NO_SETTINGS else {"settings": merged}


def form_of(output: Output[Any], text: str) -> AnswerSchema:
    """Return the form of an operator's answers: that of its type, or else the one that its configuration declares.

    Args:
        output: Type of the answers.
        text: The `output_schema` of the configuration.

    Raises:
        InvalidError: The `output_schema` is invalid.
    """
    if output.schema.text != text:
        return AnswerSchema.parse(text)
    if output.type is not None and output.schema.schema is not None:
        check_schema(output.schema.schema)
    return output.schema


def check_knowledge_base(given: Any, operator_id: str) -> None:
    """Check that an operator's knowledge base, if it has one, can be searched.

    Raises:
        InvalidError: The object has no method ``retrieve``.
    """
    if given is not None and not callable(getattr(given, "retrieve", None)):
        issue = Issue("knowledge-base", f"has no method retrieve(query): {given!r}; see Documents", operator_id)
        raise InvalidError("an operator's knowledge base cannot be used", [issue])


def check_check(operator: object, check: Check | None, base: type) -> None:
    """Check that an operator with a `check` leaves its work to the class that applies it.

    Raises:
        InputError: Its class has a `run` or `execute` of its own.
    """
    kind = type(operator)
    own = [name for name in ("run", "execute") if getattr(kind, name) is not getattr(base, name)]
    if check is not None and own:
        raise InputError(f"{kind.__name__}(…): check: its own `{own[0]}` gives the answers, so it checks them itself")
