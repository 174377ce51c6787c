"""Rendering of untrusted Jinja templates, within limits.

Jinja runs in this process, where a template cannot be stopped from outside. Therefore the syntax tree of a template is
rewritten before it is compiled, and filters are wrapped, so that time and memory are checked wherever a template can
use them: each iteration of a loop and each call checks the clock, and each value is charged to a budget by its size,
with nested values counted as often as they would be printed. Values that a single operation can make very large are
charged before they are made.

Jinja's own sandbox limits neither time nor memory, so it would need a limited process: 300 ms for a template of 50
items, because Python must start, instead of 0.4 ms (measured on 2026-11-23).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from operad.operators.sandbox.uses import PartRead
from operad.runtime.values.errors import InputError, Issue, OperadError, did_you_mean
from operad.runtime.values.text import shortened

if TYPE_CHECKING:
    from types import CodeType

    from jinja2 import Template, nodes

MOST_TEMPLATE = 100_000
"""Maximum length of a template, in characters; compilation does not count towards its time limit."""

_LONGEST_LINE = 160
_LINE_BREAK = re.compile(r"\r\n|\r|\n")
_REFERENCE = re.compile(r"\{\{#[^{}]*#?\}\}")
_NO_REFERENCES = "a reference {{#…#}} is not Jinja: declare a variable, and write {{ name }}"


class TemplateError(OperadError):
    """A template that cannot be read, failed, or reached a limit.

    Attributes:
        line: Line of the fault in the template, counted from 1; 0 if unknown.
    """

    def __init__(self, message: str, *, line: int = 0) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True, slots=True)
class TemplateLimits:
    """Limits of a template.

    Attributes:
        seconds: Time limit in seconds. A single operation, such as sorting a long list, is not interrupted.
        output_chars: Maximum length of the rendered text, in characters.
        memory_bytes: Maximum total size of all values that the template creates, even temporarily, and of its
            variables: 64 bytes for each value, and one for each character.
    """

    seconds: float = 5.0
    output_chars: int = 2_000_000
    memory_bytes: int = 256_000_000


def render_template(
    template: str,
    variables: Mapping[str, Any],
    limits: TemplateLimits = TemplateLimits(),
) -> str:
    """Render a Jinja template.

    Unknown variables and their attributes are empty, None is rendered as ``None``, and nothing is escaped.

    Args:
        template: The template, which cannot include others.
        variables: Variables of the template: JSON values and tuples.

    Raises:
        TemplateError: The template is invalid, failed, or reached a limit.
        InputError: A variable is not a JSON value, or too large.
    """
    from operad.operators.sandbox.bounded_jinja import environment
    from operad.operators.sandbox.template_budget import Budget, LimitError

    compiled = _compile(template)
    budget = Budget(limits.seconds, limits.memory_bytes)
    for name, value in variables.items():
        try:
            budget.pay_for(value)
        except LimitError as error:
            raise InputError(f"variable {name!r} of a template is too large: {error}") from error
        except TypeError as error:
            raise InputError(f"variable {name!r} of a template: {error}; give values that JSON has") from error
    bounded = environment(budget)
    prepared = bounded.template_class.from_code(bounded, compiled, bounded.make_globals(None))
    pieces: list[str] = []
    size = 0
    try:
        for piece in prepared.generate(dict(variables)):
            size += len(piece)
            if size > limits.output_chars:
                raise LimitError(f"it renders more than {limits.output_chars:,} characters, the limit output_chars")
            pieces.append(piece)
    except Exception as error:
        raise _render_error(error, template, prepared) from error
    return "".join(pieces)


def check_template(template: str) -> list[Issue]:
    """Check a template without rendering it.

    Returns:
        Issues for references ``{{#…#}}``, which are not Jinja, or else a syntax error or an unknown filter; and for
        statements that load other templates, and calls of methods that change lists and dicts.
    """
    from jinja2 import nodes

    from operad.operators.sandbox.bounded_jinja import CHANGING, cannot_change

    try:
        _compile(template)
        tree = _parse(template)
    except TemplateError as error:
        references = [
            Issue(
                "reference",
                f"{shortened(match[0], _LONGEST_LINE)}: {_NO_REFERENCES}",
                _location(_line_of(template, match.start())),
            )
            for match in _REFERENCE.finditer(template)
        ]
        return references or [Issue("template", str(error), _location(error.line))]
    loading = tree.find_all((nodes.Include, nodes.Extends, nodes.Import, nodes.FromImport))
    called: list[tuple[Any, int]] = []
    for call in tree.find_all(nodes.Call):
        match call.node:
            case nodes.Getattr(attr=name) | nodes.Getitem(arg=nodes.Const(value=name)):
                called.append((name, call.lineno))
            case _:
                pass
    return [
        *(
            Issue("template", "there are no other templates here; write all in one", _location(node.lineno))
            for node in loading
        ),
        *(Issue("template", cannot_change(name), _location(line)) for name, line in called if name in CHANGING),
    ]


def names_of(template: str) -> tuple[str, ...]:
    """Return the variables that a template uses but does not set, in alphabetical order.

    Raises:
        TemplateError: The template is invalid.
    """
    from jinja2 import meta

    from operad.operators.sandbox.bounded_jinja import GLOBALS

    _compile(template)
    return tuple(sorted(meta.find_undeclared_variables(_parse(template)) - GLOBALS))


def template_parts_read(template: str) -> list[PartRead]:
    """Return the parts of variables that a template reads, and those of their items.

    Variables that the template also sets are left out, and so are parts that it mentions in a condition, a test, or
    with a default.

    Raises:
        TemplateError: The template is invalid.
    """
    from jinja2 import nodes

    _compile(template)
    tree = _parse(template)
    stored = [each.name for each in tree.find_all(nodes.Name) if each.ctx != "load"]
    names = {each.name: (each.name, False) for each in tree.find_all(nodes.Name) if each.name not in stored}
    for loop in tree.find_all(nodes.For):
        match loop.target, loop.iter:  # the budget counts the steps of a loop by a filter
            case nodes.Name(name=item), nodes.Name(name=name) | nodes.Filter(
                node=nodes.Name(name=name), name="_steps"
            ) if name in names and stored.count(item) == 1:
                names[item] = (name, True)
            case _:
                pass
    conditions = [
        *(each.test for each in tree.find_all((nodes.If, nodes.CondExpr))),
        *tree.find_all((nodes.Or, nodes.And, nodes.Test)),
        *(each for each in tree.find_all(nodes.Filter) if each.name in ("default", "d")),
    ]
    optional = {
        part for condition in conditions for each in _with_inner(condition, nodes.Expr) for part, _ in _part_at(each)
    }
    found: list[PartRead] = []
    for each in tree.find_all((nodes.Getattr, nodes.Getitem)):
        for part, value in _part_at(each):
            match value:
                case nodes.Name(name=name) if name in names:
                    found.append(PartRead(names[name][0], part, names[name][1], each.lineno))
                case nodes.Getitem(node=nodes.Name(name=name), arg=nodes.Const(value=int())) if name in names:
                    found.append(PartRead(names[name][0], part, True, each.lineno))
                case _:
                    pass
    return [read for read in found if read.part not in optional and not hasattr(dict, read.part)]


def _with_inner(node: nodes.Node, kind: type[nodes.Node]) -> Iterator[nodes.Node]:
    """Yield a node and the nodes of one type inside it."""
    yield node
    yield from node.find_all(kind)


def _part_at(node: nodes.Node) -> Iterator[tuple[str, nodes.Node]]:
    """Yield the name of the part that a node reads, and the node whose part it is."""
    from jinja2 import nodes

    match node:
        case nodes.Getattr(node=value, attr=part) | nodes.Getitem(node=value, arg=nodes.Const(value=str(part))):
            yield part, value
        case _:
            pass


def name_changed(template: str, old: str, new: str) -> str:
    """Return a template in which a variable is renamed.

    The renamed text is parsed and compared with the renamed syntax tree, so that no other text is changed.

    Raises:
        TemplateError: The template is invalid, the new name cannot be used, or not all uses can be renamed.
    """
    from jinja2 import TemplateSyntaxError, nodes

    _compile(template)
    renamed_tree = _parse(template)
    names = list(renamed_tree.find_all(nodes.Name))
    if not new.isidentifier() or new in {each.name for each in names}:
        raise TemplateError(f"{new!r} is not a name, or the template has it already; choose another")
    for each in names:
        each.name = new if each.name == old else each.name
    renamed = _rename_tokens(template, old, new)
    try:
        is_same = _parse(renamed) == renamed_tree
    except TemplateSyntaxError:  # the new name is a keyword of Jinja
        is_same = False
    if not is_same:
        raise TemplateError(f"the template uses {old!r} in a way that cannot be followed; change it with replace_text")
    return renamed


def _rename_tokens(template: str, old: str, new: str) -> str:
    """Return a template in which all tokens of a name are replaced, except those of attributes."""
    from operad.operators.sandbox.bounded_jinja import READING

    pieces: list[str] = []
    end, before = 0, ""
    for _, kind, text in READING.lex(template):
        begin = template.find(text, end)
        if begin >= 0:  # Jinja's lexer may have changed line breaks of text
            pieces += [template[end:begin], new if (kind, text) == ("name", old) and before != "." else text]
            end = begin + len(text)
        before = before if kind == "whitespace" else text
    return "".join([*pieces, template[end:]])


@lru_cache(maxsize=256)  # a workflow may render the same template repeatedly
def _compile(template: str) -> CodeType:
    """Return the compiled template."""
    from jinja2 import TemplateAssertionError, TemplateSyntaxError

    from operad.operators.sandbox.bounded_jinja import FILTER_NAMES, READING, TEST_NAMES

    if len(template) > MOST_TEMPLATE:
        raise TemplateError(f"the template has {len(template):,} characters, more than {MOST_TEMPLATE:,}")
    try:
        return READING.compile(template)
    except TemplateSyntaxError as error:
        message = str(error.message).rstrip(".")
        if isinstance(error, TemplateAssertionError) and (
            named := re.match(r"No (filter|test) named '(\w+)'", message)
        ):
            message += did_you_mean(named[2], FILTER_NAMES if named[1] == "filter" else TEST_NAMES)
        if _REFERENCE.search(template):
            message += f"; {_NO_REFERENCES}"
        raise _error_at(error.lineno, template, message) from error
    except (RecursionError, MemoryError, SyntaxError, ValueError, OverflowError) as error:
        raise TemplateError(
            f"the template cannot be compiled, perhaps nested too deeply: {shortened(str(error), _LONGEST_LINE)}"
        ) from error


def _parse(template: str) -> nodes.Template:
    from operad.operators.sandbox.bounded_jinja import READING

    return READING.parse(template)


def _render_error(error: Exception, template: str, rendered: Template) -> TemplateError:
    """Return the error of a failed rendering, with its line in the template."""
    from jinja2 import TemplateError as JinjaError

    from operad.operators.sandbox.template_budget import LimitError

    line = 0
    trace = error.__traceback__
    while trace:
        if trace.tb_frame.f_globals.get("__jinja_template__") is rendered:
            line = rendered.get_corresponding_lineno(trace.tb_lineno)
        trace = trace.tb_next
    if isinstance(error, RecursionError):
        text = "RecursionError: its macros, loops or values are nested too deeply"
    elif isinstance(error, LimitError | JinjaError):
        text = str(error)
    else:
        text = f"{type(error).__name__}: {error}"
    return _error_at(line, template, text)


def _error_at(line: int, template: str, text: str) -> TemplateError:
    lines = _LINE_BREAK.split(template)
    place = f" at line {line}, `{shortened(lines[line - 1].strip(), _LONGEST_LINE)}`" if 0 < line <= len(lines) else ""
    return TemplateError(f"the template failed{place}: {text[:500]}", line=line)


def _line_of(template: str, position: int) -> int:
    return len(_LINE_BREAK.findall(template, 0, position)) + 1


def _location(line: int) -> str:
    return f"line {line}" if line else ""
