"""Translation of references between Operad and Coze.

In texts, a reference of Coze is ``{{name}}``, the name of an input of the node that takes a variable; a reference of
Operad is ``{{#id.variable#}}``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from operad.flows.formats.shapes import Fields
from operad.integrations.coze.inputs import by_name, input_of
from operad.operators.variables import Selector, Text, VariableType

_NAMED = re.compile(r"\{\{\s*(?P<name>[^\s{}.]+)(?P<rest>\.[^\s{}]+)?\s*\}\}")


def normal_text(text: str) -> str:
    """Return a text with all references in the form ``{{#id.variable#}}``."""
    return Text(text).renamed(lambda selector: selector.in_text)


def is_mixed(text: str) -> bool:
    """Return True if a text contains variables and is more than a single variable."""
    named = Text(text).selectors
    return bool(named) and not (len(named) == 1 and not Text(text).renamed(lambda _: ""))


@dataclass(frozen=True)
class Names:
    """Names of nodes and their outputs, here and at Coze.

    Attributes:
        ids: Coze's ids by Operad's.
        outputs: Coze's names of outputs by Operad's names, by Operad's node id; only names that differ.
        type_of: Function that returns the type of a variable; `ANY` if it is unknown.
        back: Operad's ids by Coze's.
    """

    ids: Mapping[str, str]
    outputs: Mapping[str, Mapping[str, str]]
    type_of: Callable[[Selector], VariableType] = field(default=lambda _: VariableType.ANY, compare=False)
    back: Mapping[str, str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "back", {coze_id: operad_id for operad_id, coze_id in self.ids.items()})

    def reference(self, selector: Selector) -> Fields:
        """Return Coze's reference to a variable."""
        return {"path": self._path(selector), "ref_node": self.ids.get(selector.node, selector.node)}

    def selector(self, reference: Any) -> list[str]:
        """Return Operad's reference, ``[variable, id]``, for a reference of Coze."""
        path, node = reference["path"], self.back.get(str(reference["ref_node"]), str(reference["ref_node"]))
        if not isinstance(path, str):
            raise TypeError(reference)
        for operad_name, coze_name in self.outputs.get(node, {}).items():
            if path == coze_name or path.startswith(coze_name + "."):
                return [operad_name + path[len(coze_name) :], node]
        return [path, node]

    def merged(self, selector: Selector) -> Fields:
        """Return Coze's reference to a variable inside a variable_merge."""
        reference = self.reference(selector)
        content = {"blockID": reference["ref_node"], "name": reference["path"], "source": "block-output"}
        return {"value": {"content": content, "type": "ref"}}

    def read_merged(self, variable: Any) -> list[str]:
        """Return Operad's reference for a reference inside a variable_merge; the inverse of `merged`."""
        content = variable["value"]["content"]
        return self.selector({"path": content["name"], "ref_node": content["blockID"]})

    def arguments(self, inputs: Any) -> list[Any]:
        """Return inputs that take variables as ``[name, [variable, id]]``."""
        return [[each["name"], self.selector(each["input"]["value"])] for each in cast("list[Any]", inputs or [])]

    def texts(self, *texts: str) -> tuple[list[str], list[Fields]]:
        """Return texts with Coze's references, and the inputs that these references name."""
        inputs: dict[str, Fields] = {}

        def input_name(selector: Selector) -> str:
            reference = self.reference(selector)
            name = re.sub(r"\W", "_", f"_{reference['ref_node']}_{reference['path']}")
            while inputs.get(name, reference) != reference or any(f"{{{{{name}}}}}" in text for text in texts):
                name += "_"
            inputs[name] = reference
            return f"{{{{{name}}}}}"

        written = [Text(text).renamed(input_name) for text in texts]
        return written, [input_of(name, reference) for name, reference in inputs.items()]

    def text(self, said: Any, inputs: Any) -> str:
        """Return a text of Coze with Operad's references; `inputs` are the inputs of its node."""
        if not isinstance(said, str):
            raise TypeError(said)
        values = by_name(inputs)

        def referred(found: re.Match[str]) -> str:
            reference = values.get(found["name"])
            if not isinstance(reference, Mapping):
                return found[0]
            variable, node = self.selector(reference)
            return Selector(f"{variable}{found['rest'] or ''}", node).in_text

        return _NAMED.sub(referred, said)

    def value(self, text: str) -> tuple[Fields, list[Fields]]:
        """Return the value of an input for a text, and the inputs that its references name.

        A text that is a single variable becomes that variable.
        """
        if (named := Text(text).selectors) and not is_mixed(text):
            return {"value": self.reference(named[0])}, []
        (written,), inputs = self.texts(text)
        return {"type": "string", "value": written}, inputs

    def read_value(self, given: Any, inputs: Any) -> str:
        """Return the text for the value of an input; the inverse of `value`."""
        if isinstance(given["value"], Mapping):
            variable, node = self.selector(given["value"])
            return Selector(variable, node).in_text
        return self.text(given["value"], inputs)

    def _path(self, selector: Selector) -> str:
        for operad_name, coze_name in self.outputs.get(selector.node, {}).items():
            if selector.variable == operad_name or selector.variable.startswith(operad_name + "."):
                return coze_name + selector.variable[len(operad_name) :]
        return selector.variable
