"""Parser of the code of a ComfyUI workflow, which walks the syntax tree and runs nothing; see `code` for the form."""

from __future__ import annotations

import ast
import json
import math
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, zip_longest
from typing import Any, cast

from operad.flows.formats.json_text import MAX_DEPTH, read_json
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.integrations.comfyui.formats.code import callee_of
from operad.integrations.comfyui.formats.written import NAME, VIRTUAL, titled
from operad.runtime.values.errors import InvalidError, Issue, describe

MAX_BYTES = 4 * 2**20
"""Maximum length of code, in characters; its syntax tree takes a hundred times as much memory."""

_MAX_BITS = 4096
"""Maximum size of a whole number: Python reads longer ones as `0xff…`, but refuses to write them in decimals."""

_COMMENT = re.compile(r'\s*#\s*(?:("(?:[^"\\]|\\.)*")|(\S+))[ \t]*(.*)')


@dataclass(frozen=True, slots=True)
class _Line:
    """Content of a valid line.

    Attributes:
        variables: The variables that the line assigns, in the order of the outputs.
        type: The name of the class.
        values: The inputs by name, as literal values or as `_VariableUse`.
        id: The node's id in the comment; None if there is none.
        title: The node's title in the comment; None if there is none.
        data: The data of the server's form in the comment; None if there are none.
    """

    variables: Sequence[str]
    type: str
    values: Mapping[str, Any]
    id: str | None
    title: str | None
    data: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class _VariableUse:
    """Variable as an input; `port` is the number in ``IMAGE_1[7]``."""

    variable: str
    port: int | None = None


def load_code(text: str, name: str = "workflow") -> NodeGraph:
    """Return the graph of code.

    A node has the id of its comment, or else a number. An edge of a variable that is not assigned before keeps the name
    of the variable in `extra`; its source is the node that assigns the variable later, or else the name itself.

    Raises:
        InvalidError: The code is not valid Python, or not only such calls; every issue is listed with its line.
    """
    if len(text) > MAX_BYTES:
        raise InvalidError(name, [Issue("size", f"has {len(text):,} characters; the maximum is {MAX_BYTES:,}", name)])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about unknown escapes
            tree = ast.parse(text)
    except SyntaxError as error:
        where = f"line {error.lineno}, column {error.offset}" if error.lineno else name
        raise InvalidError(name, [Issue("format", f"is not valid Python: {error.msg}", where)]) from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise InvalidError(
            name, [Issue("format", f"is not valid Python that can be read: {describe(error)}", name)]
        ) from error
    source = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    issues: list[Issue] = []
    lines: list[_Line] = []
    for statement, following in zip_longest(tree.body, tree.body[1:]):
        ends_line = following is None or following.lineno > (statement.end_lineno or 0)
        where = f"line {statement.lineno}"
        try:
            lines.append(_parse_line(statement, _text_after(statement, source) if ends_line else ""))
        except _Unreadable as error:
            issues += [Issue("format", message, where) for message in error.messages]
    if issues or not lines:
        raise InvalidError(name, issues or [Issue("format", "holds no calls", name)])
    return _graph_of(lines, name)


class _Unreadable(Exception):  # noqa: N818
    """A line is not of the form that is read, for these reasons."""

    def __init__(self, *messages: str) -> None:
        self.messages = messages
        super().__init__(*messages)


def _graph_of(lines: Sequence[_Line], name: str) -> NodeGraph:
    """Return the graph of valid lines."""
    ids = list(_node_ids(lines))
    assigned_later: dict[str, tuple[str, int]] = {}
    for node_id, line in zip(reversed(ids), reversed(lines), strict=True):
        assigned_later |= {variable: (node_id, port) for port, variable in enumerate(line.variables)}
    assigned: dict[str, tuple[str, int]] = {}
    nodes: list[NodeSpec] = []
    edges: list[Edge] = []
    for node_id, line in zip(ids, lines, strict=True):
        extra: dict[str, Any]
        if line.data is not None:
            extra = {"api": line.data}
        elif line.type in VIRTUAL:
            extra = {} if line.title is None else {"title": line.title}
        else:
            extra = {"api": {} if line.title is None else {"_meta": {"title": line.title}}}
        params = {key: value for key, value in line.values.items() if not isinstance(value, _VariableUse)}
        nodes.append(titled(NodeSpec(node_id, line.type, params, extra={NAME: extra})))
        for key, use in line.values.items():
            if isinstance(use, _VariableUse):
                known = use.variable in assigned
                source, port = (assigned if known else assigned_later).get(use.variable, (use.variable, 0))
                extra = {} if known else {NAME: {"undefined": use.variable}}
                edges.append(Edge(source, node_id, port if use.port is None else use.port, key, extra))
        assigned |= {variable: (node_id, port) for port, variable in enumerate(line.variables)}
    is_whole = not any(edge.extra for edge in edges)
    return NodeGraph(nodes, edges, name, {} if is_whole else {NAME: {"variables": assigned}})


def _node_ids(lines: Sequence[_Line]) -> Iterator[str]:
    used: set[str] = set()
    comment_ids = {line.id for line in lines}
    numbers = (number for number in map(str, count(1)) if number not in comment_ids)
    for line in lines:
        node_id = next(numbers) if line.id is None or line.id in used else line.id
        used.add(node_id)
        yield node_id


# One line


def _parse_line(statement: ast.stmt, text_after: str) -> _Line:
    """Return the content of a line; raise `_Unreadable` if it is not a call of the form that is read."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=variable)], value=ast.Call() as call):
            variables = [variable]
        case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Call() as call):
            variables = [each.id for each in targets if isinstance(each, ast.Name)]
            if len(variables) < len(targets):
                raise _Unreadable("must assign to plain variables")
        case ast.Expr(value=ast.Call() as call):
            variables = []
        case _:
            raise _Unreadable("must be one call of a class: VARIABLE = Class(input=value)")
    class_name = _class_name(call)
    values = _input_values(call)
    node_id, title = _parse_comment(text_after, class_name)
    data = _comment_data(title)
    return _Line(variables, class_name, values, node_id, title if data is None else None, data)


def _class_name(call: ast.Call) -> str:
    """Return the class that a call names: as its function, or as a text if that is not an identifier."""
    match call:
        case ast.Call(func=ast.Name(id=name), args=[]):
            return name
        case ast.Call(func=ast.Name(id=name), args=[ast.Constant(value=str() as class_name)]) if (
            callee_of(class_name) == name
        ):
            return class_name
        case ast.Call(func=ast.Name(id=name)):
            raise _Unreadable(f"{name}: give every input by its name")
        case _:
            raise _Unreadable("must call a class by its name")


def _input_values(call: ast.Call) -> dict[str, Any]:
    """Return the inputs of a call by name."""
    pairs: list[tuple[str, ast.expr]] = []
    errors: list[str] = []
    for argument in call.keywords:
        match argument:
            case ast.keyword(arg=str() as name, value=value):
                pairs.append((name, value))
            case ast.keyword(value=ast.Dict(keys=keys, values=dict_values)):
                for key, value in zip(keys, dict_values, strict=True):
                    if isinstance(key, ast.Constant) and isinstance(key.value, str):
                        pairs.append((key.value, value))
                    else:
                        errors.append("** must be followed by an object whose keys are names of inputs")
            case _:
                errors.append("** must be followed by an object")
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name in values:
            errors.append(f"{name}: is given twice")
        try:
            values[name] = _input_value(value)
        except _Unreadable as error:
            errors += [f"{name}: {message}" for message in error.messages]
    if errors:
        raise _Unreadable(*errors)
    return values


def _input_value(expression: ast.expr) -> Any:
    """Return a literal value, or the use of a variable."""
    match expression:
        case ast.Name(id=variable):
            return _VariableUse(variable)
        case ast.Subscript(value=ast.Name(id=variable), slice=ast.Constant(value=int() as port)) if port is not True:
            return _VariableUse(variable, port)
        case ast.Subscript(
            value=ast.Name(id=variable), slice=ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as port))
        ):
            return _VariableUse(variable, -port)
        case _:
            pass
    try:
        value: Any = ast.literal_eval(expression)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError) as error:
        raise _Unreadable("must be a literal or a variable") from error
    if not _is_json(value):
        raise _Unreadable("must be a text, a number, True, False, None, or a list or object of these")
    return value


def _is_json(value: Any, depth: int = 0) -> bool:
    match value:
        case None | bool() | str():
            return True
        case int():
            return value.bit_length() <= _MAX_BITS
        case float():
            return math.isfinite(value)
        case list():
            inner = cast("list[Any]", value)
        case dict():
            if not all(isinstance(key, str) for key in cast("dict[Any, Any]", value)):
                return False
            inner = list(cast("dict[str, Any]", value).values())
        case _:
            return False
    return depth < MAX_DEPTH and all(_is_json(each, depth + 1) for each in inner)


def _text_after(statement: ast.stmt, source: Sequence[str]) -> str:
    """Return the text after a statement on its last line."""
    return source[(statement.end_lineno or 1) - 1].encode()[statement.end_col_offset :].decode()


def _parse_comment(text: str, class_name: str) -> tuple[str | None, str | None]:
    """Return the id and the title in a comment; a comment that begins with the class name is a title without an id."""
    found = _COMMENT.fullmatch(text)
    if found is None:
        return None, None
    quoted, word, title = found.groups()
    if word == class_name:
        return None, text.strip().lstrip("#").strip()
    return (_unquoted(quoted) if quoted else word), (_unquoted(title.strip()) if title.strip() else None)


def _comment_data(title: str | None) -> Mapping[str, Any] | None:
    """Return the data of the server's form in a comment; None if it has a title in the place of data."""
    if title is None or not title.startswith("{"):
        return None
    try:
        return read_json(title, "comment")
    except InvalidError:
        return None


def _unquoted(text: str) -> str:
    if not text.startswith('"'):
        return text
    try:
        return str(json.loads(text))
    except ValueError:
        return text
