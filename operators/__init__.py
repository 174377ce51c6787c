"""What works: operators."""

from operad.operators.operator import Operator, OperatorConfig

__all__ = ["Operator", "OperatorConfig"]
