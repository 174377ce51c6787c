"""Base class of operators with an instruction, which may contain values of the job."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from functools import cached_property
from typing import Any, ClassVar

from pydantic import JsonValue
from typing_extensions import Self, TypeVar

from operad.operators.config import OperatorConfig
from operad.operators.instruction import Instruction, instruction_of
from operad.runtime.graph.call import OperatorCall
from operad.runtime.graph.operator import BaseOperator
from operad.runtime.values.errors import Issue
from operad.runtime.values.ids import settled_id
from operad.runtime.values.message import WorkflowMessage

T = TypeVar("T", default=Any, covariant=True)


class Instructed(BaseOperator[T]):
    """Operator with a configuration and an instruction.

    Attributes:
        config: The configuration.
    """

    config: OperatorConfig
    _fills: ClassVar[bool] = True  # False for subclasses with an own `run`, which may use the instruction otherwise

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if not vars(cls).keys().isdisjoint(("run", "execute")):
            cls._fills = vars(cls).get("_fills", False)

    @property
    def _config(self) -> OperatorConfig:
        """The configuration, under the name that subclasses written for Chat2Graph use."""
        return self.config

    @_config.setter
    def _config(self, config: OperatorConfig) -> None:
        self.config = config

    def get_id(self) -> str:
        """Return the id of the operator."""
        return self.config.id

    def settle_id(self, is_taken: Callable[[str], bool]) -> None:
        """Make the default id unique among the taken ids. A given id, and one that was settled before, is unchanged."""
        if not self._settled:
            self.config = self.config.model_copy(update={"id": settled_id(self.config.id, is_taken)})
            self._settled = True

    def with_instruction(self, instruction: str) -> Self:
        """Return the operator with another instruction, and the same id.

        Raises:
            InputError: The instruction is empty.
        """
        changed = copy(self)
        values: dict[str, Any] = {
            **dict(self.config),
            "instruction": instruction,
            "written_by": None,
            "id": self.get_id(),
        }
        changed.config, changed._settled = OperatorConfig(**values), True
        for kind in type(self).__mro__:
            for name, value in vars(kind).items():
                if isinstance(value, cached_property):  # which may depend on the instruction
                    vars(changed).pop(name, None)
        return changed

    @property
    def instruction(self) -> str:
        """Purpose of the operator: the instruction without values, or the description of its function."""
        return self.config.instruction

    @property
    def names_operators(self) -> bool:
        """True if the instruction is a function, or has names in braces."""
        return self._fills and (self.config.written_by is not None or "{" in self.config.instruction)

    def check_among(self, before: Mapping[str, BaseOperator], others: Collection[str]) -> list[Issue]:
        """Return the issues of `check`, and those of names in the instruction."""
        issues = self.check(before)
        return [*issues, *self._instruction().check(before, others)] if self.names_operators else issues

    def check_inside(self, before: Mapping[str, BaseOperator], *, of_map: bool) -> list[Issue]:
        """Return the issues of names in the instruction of one of the first operators of a nested workflow or map."""
        return self._instruction().check_inside(before, of_map=of_map) if self.names_operators else []

    def check_inputs(self, inputs: Mapping[str, JsonValue], before: Collection[str]) -> list[Issue]:
        """Return the issues of names in the instruction that neither an input nor an operator before it has."""
        return self._instruction().check_inputs(inputs, before) if self.names_operators else []

    def _instruction(self) -> Instruction:
        """Return the instruction, which can be checked, and written for a call."""
        return instruction_of(self.config.instruction, self.config.written_by, self.get_id())

    def _messages_to_name(self, call: OperatorCall) -> Sequence[WorkflowMessage]:
        """Return the messages that the instruction may name."""
        return call.messages
