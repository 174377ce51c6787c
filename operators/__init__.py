"""Operators and typed nodes."""

from operad.operators.config import OperatorConfig
from operad.operators.node import NodeOperator, NodeParams
from operad.operators.operator import Operator
from operad.operators.services import Services
from operad.operators.skills import Skill, load_skills
from operad.operators.variables import Selector, Text, VariableType

__all__ = [
    "NodeOperator",
    "NodeParams",
    "Operator",
    "OperatorConfig",
    "Selector",
    "Services",
    "Skill",
    "Text",
    "VariableType",
    "load_skills",
]
