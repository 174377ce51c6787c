"""`operad schema`."""

from __future__ import annotations

import json

from operad.configs.schema import json_schema


def schema() -> None:
    """Print the JSON Schema of the YAML files of experts, for editors."""
    print(json.dumps(json_schema(), indent=2))
