"""Configuration of an operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, cast

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    JsonValue,
    field_validator,
    model_validator,
)

from operad.operators.answer_check import Check, as_check
from operad.operators.instruction import InstructionFunction, default_id, description_of
from operad.operators.skills import Skill, as_skills
from operad.runtime.models.settings import NO_SETTINGS, ModelSettings
from operad.runtime.reasoning.task import Example
from operad.runtime.tools.tool import as_tools
from operad.runtime.tools.toolkit import Action, Tools
from operad.runtime.values.ids import id_fault, slug
from operad.runtime.values.output import ANY_TEXT, Output
from operad.runtime.values.value import Value


def _as_schema(declared: Any) -> Any:
    """Return a declared type as the text of its JSON Schema; an empty text if any text is permitted."""
    if isinstance(declared, str):
        return "" if declared.strip() in ANY_TEXT else declared
    return Output.of(declared).schema.text


class OperatorConfig(Value):
    """Configuration of an operator (Chat2Graph, Workflow module, section 2.1).

        config = OperatorConfig(instruction="List what the text claims.", id="facts", output_schema="{claims: [string]}")
        facts = Operator(config)

    Attributes:
        instruction: Role, aim and style of the operator, for the reasoner, as a `Template`. Not empty. If a function is
            given, it becomes `written_by`, and the first line of its docstring the instruction.
        actions: Actions of the operator.
        examples: Inputs with correct answers, for the reasoner.
        output_schema: Form of the answer: a JSON Schema, an example in YAML or JSON, or a description; or a type, which
            is replaced by its JSON Schema.
        ports: Ports of the operator, of which the reasoner takes one; see `Port`. None by default.
        threshold: Minimum score, from 0 to 1, of the edges of the toolkit that lead to recommended actions and tools.
        hops: Maximum number of edges in the toolkit between the operator's actions and a recommended one.
        id: Id of the operator in a workflow; by default the first words of the instruction.
        tools: Tools and functions that the operator may call, besides those of its actions.
        skills: Skills that the operator may use; or their folders, of which no scripts run. See `load_skills`.
        code_mode: True if the model calls the tools by Python code in a sandbox; see docs/code_mode.md.
        memory: True if the operator receives the earlier turns of a conversation; see `Job.turns`.
        settings: Settings of the model's calls, in place of the model's own.
        max_turns: Maximum number of the model's turns; None for the reasoner's maximum.
        written_by: Function that returns the instruction for each call; see `InstructionFunction`.
        check: Check of each answer, before other operators receive it: a criterion in words, or a function that is given
            the answer and returns the fault as text, or raises it as `ValueError`; None without a fault.
    """

    instruction: str = Field(kw_only=False)
    actions: Annotated[Sequence[Action], AfterValidator(tuple)] = ()
    examples: Annotated[Sequence[Example], AfterValidator(tuple)] = ()
    output_schema: Annotated[str, BeforeValidator(_as_schema)] = ""
    ports: Annotated[Sequence[str], AfterValidator(tuple)] = ()
    threshold: float = Field(default=0.5, ge=0, le=1)
    hops: int = Field(default=0, ge=0)
    id: str = Field(default="", min_length=1)
    tools: Annotated[Tools, BeforeValidator(as_tools)] = ()
    skills: Annotated[Sequence[Skill], BeforeValidator(as_skills)] = ()
    code_mode: bool = False
    memory: bool = True
    settings: ModelSettings = NO_SETTINGS
    max_turns: int | None = Field(default=None, ge=1)
    written_by: InstructionFunction | None = None
    check: Annotated[Check | None, BeforeValidator(as_check)] = None

    _positional: ClassVar[str] = "instruction"

    def fingerprint(self) -> dict[str, JsonValue]:
        """Return plain values that are equal for equal configurations; see `Value.fingerprint`."""
        later = {
            "tools": (),
            "skills": (),
            "code_mode": False,
            "memory": True,
            "settings": NO_SETTINGS,
            "max_turns": None,
            "written_by": None,
            "check": None,
        }  # defaults of newer fields, left out: older fingerprints remain valid
        return {
            name: value
            for name, value in super().fingerprint().items()
            if getattr(self, name, None) != later.get(name, ...)
        }

    @model_validator(mode="before")
    @classmethod
    def _of_function(cls, fields: Any) -> Any:
        given = cast("dict[str, Any]", fields) if isinstance(fields, dict) else {}
        function: Any = given.get("instruction")
        if not callable(function) or isinstance(function, type):
            return cast("Any", fields)
        return {**given, "instruction": description_of(cast("InstructionFunction", function)), "written_by": function}

    @model_validator(mode="after")
    def _set_default_id(self) -> OperatorConfig:
        if "id" not in self.model_fields_set:
            vars(self)["id"] = slug(self.instruction) if self.written_by is None else default_id(self.written_by)
        return self

    @field_validator("id")
    @classmethod
    def _check_id(cls, operator_id: str) -> str:
        if fault := id_fault(operator_id):
            raise ValueError(fault)
        return operator_id

    @field_validator("ports")
    @classmethod
    def _check_ports(cls, ports: Sequence[str]) -> Sequence[str]:
        if len(set(ports)) < len(ports) or not all(port.strip() for port in ports):
            raise ValueError("ports must have distinct, non-empty names")
        return ports

    @field_validator("instruction")
    @classmethod
    def _check_instruction(cls, instruction: str) -> str:
        if not instruction.strip():
            raise ValueError("the instruction is empty: say what the operator is to do")
        return instruction
