"""Codes that issues can have, extracted from the source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from architecture import LAYERS, ROOT

NAMED = {
    "configs/faults.py: *explain(problem, self._spec, self._text_of(fault_path))": (
        "unknown-key",
        "missing-key",
        "value",
    ),
    "runtime/values/form_text.py: _LIMITS[issue.code]": ("too-deep", "too-large"),
    "runtime/policies/policy.py: name": ("retry", "timeout", "cache"),
    "integrations/comfyui/server.py: code": (),  # codes of a server
    "runtime/workflow/map.py: code": ("unknown-output", "not-a-list"),
    "runtime/durable/codec.py: *map(str, fields)": (),  # a code that existed before
}
"""Possible codes of an expression that is neither a text nor passed on, by file and expression."""


def codes(root: Path = ROOT) -> set[str]:
    """Return all codes.

    Args:
        root: The folder of the layers.

    Raises:
        ValueError: One that cannot be read out of the source: write it as a text, or name it in `NAMED`.
    """
    found: set[str] = set()
    for layer in LAYERS:
        for path in sorted((root / layer).rglob("*.py")):
            found |= set(_codes_of(path, path.relative_to(root).as_posix()))
    return found


def _codes_of(path: Path, file: str) -> Iterator[str]:
    text = path.read_text(encoding="utf-8")
    if not any(word in text for word in ("Issue", "Fault", "report", "invalid_schema", "code:")):
        return
    nodes = list(ast.walk(ast.parse(text)))
    constants = {
        target.id: node.value.value
        for node in nodes
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    takers = (
        {"Issue": 0, "Fault": 2, ".report": 1}
        if file.startswith("configs/")
        else {"Issue": 0, "Fault": 2, "FormFault": 0, "invalid_schema": 0}
    )
    passed: set[str] = set()
    for node in [*nodes, *nodes]:  # twice: a function may pass its code on to a later one
        if isinstance(node, ast.FunctionDef) and "code" in (
            names := [arg.arg for arg in node.args.args if arg.arg != "self"]
        ):
            makes = any(
                isinstance(call, ast.Call)
                and _called(call) in takers
                and call.args
                and ast.unparse(call.args[0]) == "code"
                for call in ast.walk(node)
            )
            if makes:
                takers[node.name] = names.index("code")
                passed.add("code")
                defaults = dict(zip(reversed(names), reversed(node.args.defaults), strict=False))
                yield from (
                    str(default.value)
                    for name, default in defaults.items()
                    if name == "code" and isinstance(default, ast.Constant)
                )
        if (
            isinstance(node, ast.AnnAssign)
            and ast.unparse(node.target) == "code"
            and isinstance(node.value, ast.Constant)
        ):
            yield str(node.value.value)  # the default of a field
    for call in nodes:
        if isinstance(call, ast.Call) and _called(call) in takers:
            given = {keyword.arg: keyword.value for keyword in call.keywords}
            place = takers[_called(call)]
            code = call.args[place] if len(call.args) > place else given.get("code")
            if code is not None:
                yield from _texts(code, constants, passed, file)


def _called(call: ast.Call) -> str:
    """Return the name of a called function; methods called ``report`` have a dot, unlike the function of that name."""
    name = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
    return ".report" if name == "report" and isinstance(call.func, ast.Attribute) else name


def _texts(code: ast.expr, constants: dict[str, str], passed: set[str], file: str) -> Iterator[str]:
    if isinstance(code, ast.IfExp):
        yield from _texts(code.body, constants, passed, file)
        yield from _texts(code.orelse, constants, passed, file)
    elif isinstance(code, ast.Constant):
        yield str(code.value)
    elif isinstance(code, ast.Name) and code.id in constants:
        yield constants[code.id]
    elif (place := f"{file}: {ast.unparse(code)}") in NAMED:
        yield from NAMED[place]
    elif not (isinstance(code, ast.Attribute) and code.attr == "code") and ast.unparse(code) not in passed:
        raise ValueError(f"{file}:{code.lineno}: the code {ast.unparse(code)!r} cannot be read; see NAMED")
