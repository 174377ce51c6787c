"""Nodes that compute and branch: condition, custom function, direct reply, iteration."""

from __future__ import annotations

import json
import re
from typing import Any

from operad.flows.formats.shapes import Fields, each_of, list_of, pairs_of
from operad.integrations.flowise.names import OUTSIDE, SESSION, WrittenNames
from operad.integrations.flowise.nodes.models import of_variable
from operad.integrations.flowise.nodes.reading import Reading, expression_of, only_variable
from operad.integrations.flowise.writing import as_number
from operad.operators.variables import Selector, Text

_STRING = {
    "contains": "contains",
    "notContains": "not contains",
    "startsWith": "start with",
    "endsWith": "end with",
    "equal": "is",
    "notEqual": "is not",
    "isEmpty": "empty",
    "notEmpty": "not empty",
}
_NUMBER = {"smaller": "<", "smallerEqual": "≤", "larger": ">", "largerEqual": "≥", "equal": "=", "notEqual": "≠"}
_BOOLEAN = {"equal": "is", "notEqual": "is not"}
_OPERATORS = {"string": _STRING, "number": _NUMBER, "boolean": _BOOLEAN}
"""Operad's operators by Flowise's, for each type of values."""

_TEXTS = ("text", "content", "answer", "data")
_JS_GROUP = re.compile(r"\(\?<(?![=!])")


def read_condition(reading: Reading) -> None:
    """Add the nodes for a condition: a code node that computes values, if they are more than a variable, and an if-else."""
    cases = [_case(reading, number, each) for number, each in enumerate(each_of(reading.inputs.get("conditions")))]
    reading.add("if-else", {"cases": cases or [["or", []]]})


def _case(reading: Reading, number: int, given: Fields) -> list[Any]:
    kind = str(given.get("type") or "string")
    operation = str(given.get("operation"))
    place = f"conditions[{number}]"
    if kind == "number" and operation in ("isEmpty", "notEmpty"):
        return ["and" if operation == "notEmpty" else "or", []]  # there, no number is empty
    left, right = (_side(reading, f"{place}.{side}", given.get(side)) for side in ("value1", "value2"))
    if operation == "regex":
        pattern = _JS_GROUP.sub("(?P<", right)
        try:
            re.compile("" if "{{#" in pattern else pattern)
        except re.error:
            reading.remark(f"{place}.value2", "must be a regular expression of Python; the condition does not hold")
            return ["or", []]
        expression, *named = expression_of(left)
        right_expression, right_named = _shifted(pattern, len(named))
        value = reading.compute(
            f"value{number}",
            "value",
            "boolean",
            f"bool(re.search({right_expression}, {expression}))",
            *named,
            *right_named,
        )
        return [None, [[value, "is", "true"]]]
    operator = _OPERATORS.get(kind, _STRING).get(operation)
    if operator is None:
        reading.remark(
            f"{place}.operation", f"the operation {operation!r} is unknown for a {kind}; the condition does not hold"
        )
        return ["or", []]
    condition: list[Any] = [_left(reading, number, kind, left), operator]
    if operator in ("empty", "not empty"):
        return [None, [condition]]
    if kind == "number" and "{{#" not in right:
        right = f"{as_number(right):g}"
    return [None, [[*condition, right.lower() if kind == "boolean" else right]]]


def _side(reading: Reading, place: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return reading.text(place, "" if value is None else value, of="conditions")


def _shifted(text: str, by: int) -> tuple[str, list[Selector]]:
    """Return the expression of a text whose variables have names after `by` others."""
    named = list(dict.fromkeys(Text(text).selectors))
    fillers = [Selector(f"x{number}", "none") for number in range(by)]
    head = "".join(each.in_text for each in fillers)
    expression, *_ = expression_of(head + text)
    return expression.removeprefix(" + ".join(f"text({chr(ord('a') + n)})" for n in range(by))).removeprefix(
        " + "
    ) or "''", named


def _left(reading: Reading, number: int, kind: str, text: str) -> list[str]:
    """Return the variable on the left of a condition."""
    alone = only_variable(text)
    if alone and _type(reading, alone) in (kind, "any"):
        return list(alone)
    expression, *variables = expression_of(text)
    if kind == "number":
        return reading.compute(f"value{number}", "value", "number", f"number({expression})", *variables)
    if kind == "boolean":
        whole = "a" if alone else repr(text == "true")
        return reading.compute(f"value{number}", "value", "any", whole, *variables)
    return reading.compute(f"value{number}", "value", "string", expression, *variables)


def _type(reading: Reading, selector: Selector) -> str:
    """Return the type of a variable: string, number, list, or any."""
    if selector.node == reading.names.start:
        return reading.names.inputs.get(selector.variable, "string")
    source = next((each for each in reading.file.nodes if selector.node in (each, f"{each}_content")), "")
    if selector.variable == "status_code" or selector.variable.startswith("usage."):
        return "number"
    is_function = bool(source) and reading.file.nodes[source].kind == "customFunctionAgentflow"
    if selector.variable in _TEXTS and not is_function and not selector.node.endswith("_data"):
        return "string"
    return "list" if selector.variable == "output" else "any"


# Custom functions: a body of JavaScript that names its inputs $name, and $flow, $vars and $input.

_BEGIN = "const output = await (async () => {\n"
_END = """
})();
let content = output;
if (typeof content === "string" && /^\\s*(\\{[^]*\\}|\\[[^]*\\])\\s*$/.test(content)) {
  try { content = JSON.parse(content); } catch { }
}
return { content: typeof content === "object" ? JSON.stringify(content, null, 2) : content ?? null };
}
"""
_STATE = re.compile(r"\$flow\.state(?:\.([A-Za-z_$][\w$]*)|\[\s*[\"']([^\"']+)[\"']\s*\])")
_VARS = re.compile(r"\$vars(?:\.([A-Za-z_$][\w$]*)|\[\s*[\"']([A-Za-z_$][\w$]*)[\"']\s*\])")
_WHOLE_STATE = re.compile(r"\$flow\.state(?!\s*(?:\.[A-Za-z_$]|\[\s*[\"']))|\$flow(?!\.)")
_OUTSIDE = re.compile(r"\brequire\s*\(|^\s*import\s|\bfetch\s*\(|\baxios\b", re.MULTILINE)


def read_function(reading: Reading) -> None:
    """Add the nodes for a custom function: its code in a `main`, with the values that it names as arguments."""
    field = "customFunctionInputVariables"
    variables: list[list[Any]] = []
    code = str(reading.inputs.get("customFunctionJavascriptFunction") or "")
    for number, each in enumerate(each_of(reading.inputs.get(field))):
        if name := str(each.get("variableName") or ""):
            text = reading.text(f"{field}[{number}].variableValue", each.get("variableValue", ""), of=field)
            variables.append([f"${name}", reading.value(text, f"input{number}")])
    given: list[str] = []
    if "$flow" in code:
        states = dict.fromkeys(found[1] or found[2] for found in _STATE.finditer(code))
        if _WHOLE_STATE.search(code):
            states |= dict.fromkeys(reading.file.states)
        reading.names.states |= states
        listed = ", ".join(f"{name!r}: state{number}" for number, name in enumerate(states))
        variables += [[f"state{number}", [name, "conversation"]] for number, name in enumerate(states)]
        session = ", sessionId: session, chatId: session" if re.search(r"\$flow\.(sessionId|chatId)", code) else ""
        variables += [["session", list(reading.names.input(SESSION))]] if session else []
        wants_input = ", input" if "$flow.input" in code else ""
        variables += [["input", reading.value(reading.names.message, "input")]] if wants_input else []
        given.append(f"const $flow = {{ state: {{ {listed} }}{session}{wants_input} }};")
        if re.search(_STATE.pattern + r"\s*=[^=]", code):
            reading.remark(
                "customFunctionJavascriptFunction", "what the code assigns to $flow.state is lost; return it"
            )
    if names := list(dict.fromkeys(found[1] or found[2] for found in _VARS.finditer(code))):
        variables += [[f"vars_{name}", list(reading.names.input(f"vars.{name}"))] for name in names]
        given.append(f"const $vars = {{ {', '.join(f'{name}: vars_{name}' for name in names)} }};")
    if "$input" in code and not any(name == "$input" for name, _ in variables):
        variables.append(["$input", reading.value(reading.names.message, "input")])
    if _OUTSIDE.search(code):
        says = "the code has no network and no modules here; send requests by an HTTP node"
        reading.remark("customFunctionJavascriptFunction", says)
    arguments = ", ".join(name for name, _ in variables)
    head = " ".join([f"async function main({{ {arguments} }}) {{", *given, _BEGIN])
    reading.add(
        "code",
        {
            "variables": variables,
            "outputs": [["content", "any"]],
            "code": head + code + _END,
            "language": "javascript",
        },
    )
    reading.update_state("customFunctionUpdateState")


def body_of(code: str) -> str | None:
    """Return the body of a custom function that `read_function` put into a `main`; None for other code."""
    begin = code.find(_BEGIN)
    return (
        code[begin + len(_BEGIN) :].removesuffix(_END) if 0 <= begin < code.find("\n") and code.endswith(_END) else None
    )


def write_function(params: Fields, names: WrittenNames) -> Fields:
    """Return the dialog of a custom function."""
    code = str(params.get("code", ""))
    variables = pairs_of(params.get("variables"))
    body = body_of(code)
    if body is None:
        passed = ", ".join(f"{name}: ${name}" for name, _ in variables)
        outputs = pairs_of(params.get("outputs"))
        part = f".{outputs[0][0]}" if len(outputs) == 1 else ""
        body = f"{code}\nreturn (await main({{ {passed} }})){part};"
    own = [each for each in variables if body_of(code) is None or (each[0].startswith("$") and each[0] != "$input")]
    return _function([[name.removeprefix("$"), selector] for name, selector in own], body, names)


def write_assigner(params: Fields, names: WrittenNames) -> Fields:
    """Return the dialog of a custom function that does nothing: its update of the state does the work."""
    return {"customFunctionInputVariables": [], "customFunctionJavascriptFunction": "return '';"}


def write_template(params: Fields, names: WrittenNames) -> Fields:
    """Return the dialog of a custom function that puts variables into a text, as a Jinja template with no more does."""
    variables = pairs_of(params.get("variables"))
    known = {name for name, _ in variables}
    parts = re.split(r"\{\{\s*(\w+)\s*\}\}", str(params.get("template", "")))
    written = [f"${part}" if number % 2 and part in known else json.dumps(part) for number, part in enumerate(parts)]
    return _function(variables, f"return {' + '.join(written)};", names)


def write_aggregator(params: Fields, names: WrittenNames) -> Fields:
    """Return the dialog of a custom function that gives the first value: without one, its braces stay in Flowise."""
    variables = [[f"value{number}", each] for number, each in enumerate(list_of(params.get("variables")))]
    listed = ", ".join(f"${name}" for name, _ in variables)
    return _function(
        variables, f"return [{listed}].find((each) => each != null && !/^\\{{\\{{.*\\}}\\}}$/.test(each));", names
    )


def _function(variables: list[list[Any]], body: str, names: WrittenNames) -> Fields:
    given = [{"variableName": name, "variableValue": of_variable(each, names)} for name, each in variables]
    return {"customFunctionInputVariables": given, "customFunctionJavascriptFunction": body}


def read_reply(reading: Reading) -> None:
    """Add the node for a direct reply; inside an iteration, it is the result of the item and no answer."""
    text = reading.text("directReplyMessage")
    if reading.node.parent:
        reading.compute("", "answer", "string", *expression_of(text))
    else:
        reading.add("answer", {"answer": text})


def write_reply(params: Fields, names: WrittenNames) -> Fields:
    """Return the dialog of a direct reply, for an answer or an end."""
    if "answer" in params:
        return {"directReplyMessage": names.text(str(params["answer"]))}
    values = [(name, of_variable(selector, names)) for name, selector in pairs_of(params.get("outputs"))]
    return {"directReplyMessage": values[0][1] if len(values) == 1 else "\n".join(f"{n}: {v}" for n, v in values)}


def write_condition(params: Fields, names: WrittenNames) -> Fields:
    """Return the dialog of a condition; a case becomes its first condition."""
    return {"conditions": [_written_case(case, names) for case in pairs_of(params.get("cases"))]}


def _written_case(case: list[Any], names: WrittenNames) -> Fields:
    conditions = list_of(case[1])
    selector, operator, *value = [*(list_of(conditions[0]) if conditions else []), None, None][:3] or [None, None]
    right = value[0] if value else None
    kind, operation = "string", "equal"
    for each, operators in _OPERATORS.items():
        found = next((name for name, ours in operators.items() if ours == operator), None)
        if found and (each != "boolean" or right in ("true", "false")):
            kind, operation = each, found
    written: Any = names.text(right) if isinstance(right, str) else "" if right is None else right
    if kind == "boolean":
        written = right == "true"
    return {"type": kind, "value1": of_variable(selector, names), "operation": operation, "value2": written}


def read_iteration(reading: Reading, result: Selector | None) -> None:
    """Add the nodes for an iteration, whose inner nodes are read by themselves; `result` is what an item comes to."""
    expression, *named = expression_of(reading.text("iterationInput"))
    whole = "a" if len(named) == 1 and expression == "text(a)" else expression
    listed = reading.compute("items", "items", "array", f"items({whole})", *named)
    node_id = reading.add(
        "iteration",
        {
            "iterator_selector": listed,
            "output_selector": list(result or Selector("item", reading.node.id)),
            "concurrency": 1,
            "flatten_output": False,
        },
    )
    reading.compute("content", "content", "string", "'\\n'.join(text(each) for each in a)", Selector("output", node_id))
    reading.remark(
        "iterationInput", "an item that fails ends the run; Flowise goes on with its error as the result", lossy=False
    )


def write_iteration(params: Fields, names: WrittenNames) -> Fields:
    """Return the dialog of an iteration."""
    return {"iterationInput": of_variable(params.get("iterator_selector"), names)}


def write_start(params: Fields, names: WrittenNames) -> Fields:
    """Return the dialog of a start node."""
    own = [each for each in pairs_of(params.get("variables")) if not str(each[0]).startswith(OUTSIDE)]
    if not own or not names.is_form:
        return {"startInputType": "chatInput"}
    fields: list[Fields] = [
        {"type": kind if kind in ("number", "boolean") else "string", "label": name, "name": name, "addOptions": []}
        for name, kind in own
    ]
    return {"startInputType": "formInput", "formTitle": "Input", "formDescription": "", "formInputTypes": fields}
