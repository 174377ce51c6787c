"""Jinja templates of others, rendered in bounds.

Jinja runs in this very process, where nothing can stop it from outside. So every place where a
template can take time or room is watched from within: each turn of a loop and each call looks at
the clock, and each value that the template makes is paid for by its size, nested values counted as
often as they would be printed; what could grow past all bounds in one go is paid for before it is
made. That is done by rewriting the template's tree before it is compiled, and by wrapping filters.

Jinja's own sandbox has no limits of time or memory, so it would need a limited process: 300 ms for a template of 50
items, because a Python starts, instead of 0.4 ms (measured on 2026-11-23).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from operad.runtime.values.errors import InputError, Issue, OperadError, did_you_mean

if TYPE_CHECKING:
    from types import CodeType

    from jinja2 import Template, nodes

MOST_TEMPLATE = 100_000
"""Characters of the longest template; to read it is not part of the time that it may take."""

_LONGEST_LINE = 160
_LINE_BREAK = re.compile(r"\r\n|\r|\n")
_REFERENCE = re.compile(r"\{\{#[^{}]*#?\}\}")
_NO_REFERENCES = "a reference {{#…#}} is not Jinja: declare a variable, and write {{ name }}"


class TemplateError(OperadError):
    """A template that cannot be read, failed, or reached a limit.

    Attributes:
        line: The line of the template at fault, from 1; 0 where none is known.
    """

    def __init__(self, message: str, *, line: int = 0) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True, slots=True)
class TemplateLimits:
    """Limits of a template.

    Attributes:
        seconds: Of time. A single step, such as sorting a long list, is not broken off.
        output_chars: Of what it renders.
        memory_bytes: Of all that it makes, also of what it throws away, and of its variables:
            64 for each value, and one for each character.
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

    What it does not know is empty, attributes of that too; None is ``None``; nothing is escaped.

    Args:
        template: The template; it cannot include others.
        variables: What it may use: values that JSON has, and tuples.
        limits: How much it may use.

    Raises:
        TemplateError: The template cannot be read, failed, or reached a limit.
        InputError: A variable is not a value that JSON has, or larger than the limits allow.
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
    ready = bounded.template_class.from_code(bounded, compiled, bounded.make_globals(None))
    pieces: list[str] = []
    size = 0
    try:
        for piece in ready.generate(dict(variables)):
            size += len(piece)
            if size > limits.output_chars:
                raise LimitError(f"it renders more than {limits.output_chars:,} characters, the limit output_chars")
            pieces.append(piece)
    except Exception as error:
        raise _failed(error, template, ready) from error
    return "".join(pieces)


def check_template(template: str) -> list[Issue]:
    """Check a template without rendering it.

    Returns:
        References that Jinja cannot read, or else wrong syntax or an unknown filter; other templates.
    """
    from jinja2 import nodes

    try:
        _compile(template)
        tree = _parse(template)
    except TemplateError as error:
        references = [
            Issue("reference", f"{_cut(found[0])}: {_NO_REFERENCES}", _where(_line(template, found.start())))
            for found in _REFERENCE.finditer(template)
        ]
        return references or [Issue("template", str(error), _where(error.line))]
    others = tree.find_all((nodes.Include, nodes.Extends, nodes.Import, nodes.FromImport))
    return [
        Issue("template", "there are no other templates here; write all in one", _where(node.lineno)) for node in others
    ]


def names_of(template: str) -> tuple[str, ...]:
    """The variables that a template uses and does not set itself, in the order of the alphabet.

    Raises:
        TemplateError: The template cannot be read.
    """
    from jinja2 import meta

    from operad.operators.sandbox.bounded_jinja import GLOBALS

    _compile(template)
    return tuple(sorted(meta.find_undeclared_variables(_parse(template)) - GLOBALS))


def name_changed(template: str, old: str, new: str) -> str:
    """The template with another name for a variable.

    Raises:
        TemplateError: The template cannot be read, or uses one of the names in a way that cannot be followed.
    """
    from jinja2 import TemplateSyntaxError, nodes

    _compile(template)
    wanted = _parse(template)
    names = list(wanted.find_all(nodes.Name))
    if not new.isidentifier() or new in {each.name for each in names}:
        raise TemplateError(f"{new!r} is not a name, or the template has it already; choose another")
    for each in names:
        each.name = new if each.name == old else each.name
    made = _with_name(template, old, new)
    try:
        same = _parse(made) == wanted
    except TemplateSyntaxError:  # the name is a word of Jinja's
        same = False
    if not same:
        raise TemplateError(f"the template uses {old!r} in a way that cannot be followed; change it with replace_text")
    return made


def _with_name(template: str, old: str, new: str) -> str:
    from operad.operators.sandbox.bounded_jinja import READING

    pieces: list[str] = []
    end, before = 0, ""
    for _, kind, text in READING.lex(template):
        begin = template.find(text, end)
        if begin >= 0:  # line breaks of data may be others
            pieces += [template[end:begin], new if (kind, text) == ("name", old) and before != "." else text]
            end = begin + len(text)
        before = before if kind == "whitespace" else text
    return "".join([*pieces, template[end:]])


@lru_cache(maxsize=256)  # a workflow renders the same template again and again
def _compile(template: str) -> CodeType:
    """The template as code.

    Raises:
        TemplateError: It cannot be read.
    """
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
        raise _at(error.lineno, template, message) from error
    except (RecursionError, MemoryError, SyntaxError, ValueError, OverflowError) as error:
        raise TemplateError(
            f"the template cannot be compiled, perhaps nested too deeply: {_cut(str(error))}"
        ) from error


def _parse(template: str) -> nodes.Template:
    from operad.operators.sandbox.bounded_jinja import READING

    return READING.parse(template)


def _failed(error: Exception, template: str, ready: Template) -> TemplateError:
    """Return the error of a rendering, with its place in the template."""
    from jinja2 import TemplateError as JinjaError

    from operad.operators.sandbox.template_budget import LimitError

    line = 0
    trace = error.__traceback__
    while trace:
        if trace.tb_frame.f_globals.get("__jinja_template__") is ready:
            line = ready.get_corresponding_lineno(trace.tb_lineno)
        trace = trace.tb_next
    if isinstance(error, RecursionError):
        text = "RecursionError: its macros, loops or values are nested too deeply"
    elif isinstance(error, LimitError | JinjaError):
        text = str(error)
    else:
        text = f"{type(error).__name__}: {error}"
    return _at(line, template, text)


def _at(line: int, template: str, text: str) -> TemplateError:
    lines = _LINE_BREAK.split(template)
    at = f" at line {line}, `{_cut(lines[line - 1].strip())}`" if 0 < line <= len(lines) else ""
    return TemplateError(f"the template failed{at}: {text[:500]}", line=line)


def _line(template: str, position: int) -> int:
    return len(_LINE_BREAK.findall(template, 0, position)) + 1


def _where(line: int) -> str:
    return f"line {line}" if line else ""


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_LINE else f"{text[:_LONGEST_LINE]}…"
