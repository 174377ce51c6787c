"""`operad schema`."""

from __future__ import annotations

import json

from operad.configs.schema import ConfigSpec


def schema() -> None:
    """Print the JSON Schema of the YAML files of experts, for editors."""
    print(json.dumps(ConfigSpec.model_json_schema(), indent=2))
