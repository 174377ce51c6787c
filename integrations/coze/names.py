"""Translation of references between Operad and Coze.

In texts, a reference of Coze is ``{{name}}``, the name of an input of the node that takes a variable; a reference of
Operad is ``{{#id.variable#}}``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from operad.flows.formats.shapes import Fields, each_of, fields_of
from operad.integrations.coze.constants import CONVERSATION, identity
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
        constants: Coze's inputs for variables of the conversation, by name.
        back: Operad's ids by Coze's.
        constant_names: Names of the constants by their identity.
    """

    ids: Mapping[str, str]
    outputs: Mapping[str, Mapping[str, str]]
    type_of: Callable[[Selector], VariableType] = field(default=lambda _: VariableType.ANY, compare=False)
    constants: Mapping[str, Fields] = field(default_factory=dict[str, Fields])
    back: Mapping[str, str] = field(init=False)
    constant_names: Mapping[str, str] = field(init=False)

    def __post_init__(self) -> None:
        names = {identity(given)[0]: name for name, given in self.constants.items()}
        object.__setattr__(self, "constant_names", names)
        object.__setattr__(self, "back", {coze_id: operad_id for operad_id, coze_id in self.ids.items()})

    def reference(self, selector: Selector) -> Fields:
        """Return Coze's reference to a variable."""
        return {"path": self._path(selector), "ref_node": self.ids.get(selector.node, selector.node)}

    def given(self, selector: Selector) -> Fields:
        """Return the input of Coze that takes a variable."""
        name, _, part = selector.variable.partition(".")
        if selector.node != CONVERSATION or name not in self.constants:
            return {"value": self.reference(selector)}
        kept = self.constants[name]
        if not part:
            return kept
        content = kept["value"]["content"]
        return {"value": {**kept["value"], "content": {**content, "path": [*content["path"], *part.split(".")]}}}

    def input(self, name: str, selector: Selector) -> Fields:
        """Return the input of Coze with a name that takes a variable."""
        return {"name": name, "input": self.given(selector)}

    def variable(self, given: Any) -> list[str]:
        """Return Operad's reference for an input of Coze: to a node, or to a constant; the inverse of `given`."""
        value = given["value"]
        if isinstance(value, Mapping) and (cast("Fields", value).keys() >= {"path", "ref_node"}):
            return self.selector(value)
        content = fields_of(fields_of(value).get("content"))
        if content.get("source") == "block-output":
            return self.selector({"path": content["name"], "ref_node": content["blockID"]})
        key, part = identity(given)
        return [self.constant_names.get(key, "value") + part, CONVERSATION]

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
        if selector.node == CONVERSATION and selector.variable in self.constants:
            return self.constants[selector.variable]
        reference = self.reference(selector)
        content = {"blockID": reference["ref_node"], "name": reference["path"], "source": "block-output"}
        return {"value": {"content": content, "type": "ref"}}

    def arguments(self, inputs: Any) -> list[Any]:
        """Return inputs that take variables as ``[name, [variable, id]]``."""
        return [[each["name"], self.variable(each["input"])] for each in cast("list[Any]", inputs or [])]

    def texts(self, *texts: str) -> tuple[list[str], list[Fields]]:
        """Return texts with Coze's references, and the inputs that these references name."""
        inputs: dict[str, Fields] = {}

        def input_name(selector: Selector) -> str:
            reference, named = self.given(selector), self.reference(selector)
            name = re.sub(r"\W", "_", f"_{named['ref_node']}_{named['path']}")
            while inputs.get(name, reference) != reference or any(f"{{{{{name}}}}}" in text for text in texts):
                name += "_"
            inputs[name] = reference
            return f"{{{{{name}}}}}"

        written = [Text(text).renamed(input_name) for text in texts]
        return written, [{"name": name, "input": given} for name, given in inputs.items()]

    def text(self, said: Any, inputs: Any) -> str:
        """Return a text of Coze with Operad's references; `inputs` are the inputs of its node."""
        if not isinstance(said, str):
            raise TypeError(said)
        values = {str(each.get("name")): each["input"] for each in each_of(inputs)}

        def referred(found: re.Match[str]) -> str:
            if found["name"] not in values:
                return found[0]
            variable, node = self.variable(values[found["name"]])
            return Selector(f"{variable}{found['rest'] or ''}", node).in_text

        return _NAMED.sub(referred, said)

    def value(self, text: str) -> tuple[Fields, list[Fields]]:
        """Return the value of an input for a text, and the inputs that its references name.

        A text that is a single variable becomes that variable.
        """
        if (named := Text(text).selectors) and not is_mixed(text):
            return self.given(named[0]), []
        (written,), inputs = self.texts(text)
        return {"type": "string", "value": written}, inputs

    def read_value(self, given: Any, inputs: Any) -> str:
        """Return the text for the value of an input; the inverse of `value`."""
        if isinstance(given["value"], Mapping):
            variable, node = self.variable(given)
            return Selector(variable, node).in_text
        return self.text(given["value"], inputs)

    def _path(self, selector: Selector) -> str:
        for operad_name, coze_name in self.outputs.get(selector.node, {}).items():
            if selector.variable == operad_name or selector.variable.startswith(operad_name + "."):
                return coze_name + selector.variable[len(operad_name) :]
        return selector.variable
