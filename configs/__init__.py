"""How YAML becomes experts, and the `operad` command."""

from operad.configs.loader import Configuration, load

__all__ = ["Configuration", "load"]
