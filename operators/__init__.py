"""Operators and typed nodes."""

from operad.operators.node import NodeOperator, NodeParams
from operad.operators.operator import Operator, OperatorConfig
from operad.operators.services import Services
from operad.operators.variables import Selector, Text, VariableType

__all__ = [
    "NodeOperator",
    "NodeParams",
    "Operator",
    "OperatorConfig",
    "Selector",
    "Services",
    "Text",
    "VariableType",
]
