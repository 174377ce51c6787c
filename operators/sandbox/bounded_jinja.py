"""Jinja environment with limits of time and memory.

Imported only when a template is rendered, since it imports Jinja.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from pprint import pprint
from string import Formatter
from types import BuiltinMethodType, MethodType
from typing import IO, Any, cast

from jinja2 import ChainableUndefined, nodes, pass_context, pass_environment
from jinja2.exceptions import SecurityError
from jinja2.filters import FILTERS  # pyright: ignore[reportUnknownVariableType]
from jinja2.runtime import Context, LoopContext, Macro, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment, SandboxedFormatter
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

from operad.operators.sandbox.template_budget import MOST_BITS, OWN, VALUE, Budget, LimitError, no_plain_value

# Estimated sizes of the values that filters, methods and operators of a template would create.

_WIDEST = 10_000
"""Maximum width, precision or indentation."""


def width_of(number: int | str) -> int:
    """Return a width as a positive integer.

    Raises:
        LimitError: The width is larger than `_WIDEST`.
    """
    if len(str(number)) > len(str(_WIDEST)) or abs(int(number)) > _WIDEST:
        raise LimitError(f"{str(number)[:20]} is too wide; the maximum is {_WIDEST:,}")
    return abs(int(number))


def size_of(budget: Budget, value: object) -> int:
    """Charge a value and return its size in bytes."""
    before = budget.left
    budget.pay_for(value)
    return before - budget.left


def pay_for_product(budget: Budget, left: Any, right: Any) -> None:
    """Charge the product of two values: the size of a repeated text or list."""
    if isinstance(left, int) and isinstance(right, int):
        return  # both factors are bounded, and so is the product
    for value, times in ((left, right), (right, left)):
        if isinstance(value, str | list | tuple) and isinstance(times, int) and times > 1:
            budget.pay(size_of(budget, cast("object", value)) * times)


def check_power(base: Any, power: Any) -> None:
    """Raise LimitError if a power has too many digits."""
    if isinstance(base, int) and isinstance(power, int) and abs(base) > 1 and base.bit_length() * power > MOST_BITS:
        raise LimitError(
            f"a number of {base.bit_length():,} bits to a power of {power.bit_length():,} bits is too large"
        )


_PERCENT = re.compile(r"%(?:\([^()]*(\()?[^)]*\))?[-#0 +]*(\*|\d*)(?:\.(\*|\d*))?")


def pay_for_percent(budget: Budget, text: str, values: Any) -> None:
    """Charge the estimated size of a text formatted by `%`."""
    fields = _PERCENT.findall(text)
    for parenthesis, *widths in fields:
        if parenthesis:
            raise LimitError("a name in a format cannot contain '(' here")
        if "*" in widths:
            raise LimitError("a width in a format cannot be '*' here; write the number")
        budget.pay(sum(width_of(width) for width in widths if width))
    budget.pay(size_of(budget, values) * len(fields) + len(text))


def by_length(budget: Budget, value: Any, *args: Any, **kwargs: Any) -> None:
    """Charge the length of a text: most methods and filters return a text of about the same length."""
    if isinstance(value, str):
        budget.pay(len(value))


def _by_parts(budget: Budget, value: Any, *args: Any, **kwargs: Any) -> None:
    """Charge a value per character, for methods that split a text into many values or are slow."""
    if isinstance(value, str):
        budget.pay(len(value) * VALUE)


def _by_width(budget: Budget, value: Any, width: Any = 80, *args: Any, **kwargs: Any) -> None:
    if isinstance(width, int):
        budget.pay(width_of(width))


def _expandtabs_cost(budget: Budget, value: Any, tabsize: Any = 8) -> None:
    budget.pay(str(value).count("\t") * width_of(tabsize))


def _replace_cost(budget: Budget, value: Any, old: Any = "", new: Any = "", *args: Any, **kwargs: Any) -> None:
    text, old, new = str(value), str(old), str(new)
    budget.pay((text.count(old) if old else len(text) + 1) * len(new) + len(text))


def _indent_cost(budget: Budget, value: Any, width: Any = 4, *args: Any, **kwargs: Any) -> None:
    each = len(width) if isinstance(width, str) else width_of(width)
    budget.pay((len(str(value).splitlines()) + 1) * each)


def _join_filter_cost(budget: Budget, value: Any, d: Any = "", *args: Any, **kwargs: Any) -> None:
    budget.pay(len(value) * len(str(d)))


def _join_method_cost(budget: Budget, text: str, items: Any) -> None:
    budget.pay(len(items) * len(text))


_RUNS = re.compile(r"\s+|\S+")
"""Words, and the space between them."""


def _wordwrap_cost(
    budget: Budget, value: Any, width: Any = 79, break_long_words: Any = True, wrapstring: Any = None, *args: Any
) -> None:
    text, width = str(value), max(1, width)
    _by_parts(budget, text)
    lines = 2 * len(text) // width + len(text.splitlines()) + 1
    budget.pay(lines * len(wrapstring or "\n"))
    longest = max(map(len, _RUNS.findall(text)), default=0)
    budget.pay(longest * longest // width)  # the rest of a word that is too long is copied for each line


def _urlize_cost(budget: Budget, value: Any, *args: Any, **kwargs: Any) -> None:
    text = str(value)
    _by_parts(budget, text)
    most_links = text.count(".") + text.count(":")
    budget.pay(most_links * sum(len(str(each)) for each in (*args, *kwargs.values())))


def _batch_cost(budget: Budget, value: Any, linecount: Any = 1, fill_with: Any = None) -> None:
    _by_parts(budget, value)
    budget.pay(VALUE * width_of(linecount))


def _round_cost(budget: Budget, value: Any, precision: Any = 0, *args: Any, **kwargs: Any) -> None:
    if abs(precision) > 300:
        raise LimitError(f"a precision of {precision} is too large")


def _tojson_cost(budget: Budget, value: Any, indent: Any = None) -> None:
    if indent is None:
        return
    if not 0 <= int(indent) <= 16:
        raise LimitError(f"an indentation of {indent} is too large; the maximum is 16")
    lines = size_of(budget, value) // VALUE
    budget.pay(lines * _depth(value) * int(indent))


def _depth(value: Any) -> int:
    """Return the number of levels of lists and dicts in a value, which was charged before."""
    depth, level = 0, [value]
    while level := [item for each in level if isinstance(each, list | tuple | dict) for item in _items(each)]:
        depth += 1
    return depth


def _items(value: Any) -> Iterable[Any]:
    return cast("dict[Any, Any]", value).values() if isinstance(value, dict) else value


def _sum_cost(budget: Budget, value: Any, attribute: Any = None, start: Any = 0) -> None:
    if not isinstance(start, int | float):
        raise TypeError("sum adds numbers only")


def _format_cost(budget: Budget, value: Any, *args: Any, **kwargs: Any) -> None:
    pay_for_percent(budget, str(value), kwargs or args)


ESTIMATES: Mapping[str, Callable[..., None]] = {
    **dict.fromkeys(("batch", "slice"), _batch_cost),
    **dict.fromkeys(("center", "ljust", "rjust", "zfill"), _by_width),
    **dict.fromkeys(
        "list map max min partition reject rpartition rsplit select sort split splitlines striptags title "
        "unique wordcount".split(),
        _by_parts,
    ),
    "expandtabs": _expandtabs_cost,
    "format": _format_cost,
    "indent": _indent_cost,
    "join": _join_filter_cost,
    "pprint": Budget.pay_for,
    "replace": _replace_cost,
    "round": _round_cost,
    "sum": _sum_cost,
    "tojson": _tojson_cost,
    "urlize": _urlize_cost,
    "wordwrap": _wordwrap_cost,
}
"""Costs of text methods and filters, paid before they run; their results are paid for afterwards."""

METHOD_ESTIMATES: Mapping[str, Callable[..., None]] = {**ESTIMATES, "join": _join_method_cost}


class _ChargingTransformer(NodeTransformer):
    """Transformer that rewrites a template so that all its operations are charged to the budget.

    Loops are wrapped in a filter, and so are expressions that create values without an operator, a filter or a call:
    literals of lists and dicts, slices, ``~``. Text becomes a constant, which is charged whenever it is rendered.
    """

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        node.iter = _filtered("_steps", node.iter)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return _filtered("_concat", nodes.List(node.nodes, lineno=node.lineno))

    def visit_List(self, node: nodes.List) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return _filtered("_made", node)

    def visit_Dict(self, node: nodes.Dict) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return _filtered("_made", node)

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return _filtered("_made", node) if node.ctx == "load" else node

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return _filtered("_made", node) if isinstance(node.arg, nodes.Slice) else node

    def visit_TemplateData(self, node: nodes.TemplateData) -> nodes.Node:  # noqa: N802
        return nodes.Const(node.data, lineno=node.lineno)


def _filtered(name: str, node: nodes.Node) -> nodes.Filter:
    return nodes.Filter(cast("nodes.Expr", node), name, [], [], None, None, lineno=node.lineno)


class BoundedEnvironment(ImmutableSandboxedEnvironment):
    """Jinja environment that charges the operations of its templates to a budget."""

    intercepted_binops = frozenset(["+", "*", "**", "%"])
    budget: Budget

    def __init__(self) -> None:
        super().__init__(undefined=ChainableUndefined, optimized=False, finalize=_shown, cache_size=0)
        filters = cast("dict[str, Callable[..., Any]]", FILTERS) | {"pprint": _pprint}
        self.filters = {name: _bounded(name, function) for name, function in filters.items()} | _OWN_FILTERS
        del self.globals["lipsum"]  # pyright: ignore[reportUnknownMemberType]

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        return cast("nodes.Template", _ChargingTransformer().visit(super()._parse(source, name, filename)))

    def handle_exception(self, source: str | None = None) -> Any:
        """Raise errors of rendering unchanged, without Jinja's rewriting of tracebacks."""
        if source is not None:
            super().handle_exception(source)
        raise

    def getattr(self, obj: Any, attribute: str) -> Any:
        """Return an attribute; for a dict the value of that key, unless the name is one of a few methods."""
        if isinstance(obj, Undefined):
            return obj
        if isinstance(obj, dict) and attribute not in _METHODS[dict]:
            return self.getitem(cast("dict[Any, Any]", obj), attribute)
        return super().getattr(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        """Return an item; for a dict never a method."""
        if isinstance(obj, Undefined):
            return obj
        if not isinstance(obj, dict):
            return super().getitem(obj, argument)
        try:
            return cast("dict[Any, Any]", obj)[argument]
        except (TypeError, LookupError):
            return self.undefined(obj=obj, name=argument)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Return True for permitted attributes: some methods of plain values, public ones of Jinja's own objects."""
        for kind, methods in _METHODS.items():
            if isinstance(obj, kind):
                return attr in methods
        return isinstance(obj, OWN) and super().is_safe_attribute(obj, attr, value)

    def unsafe_undefined(self, obj: Any, attribute: str) -> Undefined:
        """Raise SecurityError, because an undefined value would be rendered as an empty text."""
        if attribute in CHANGING and isinstance(obj, list):
            raise SecurityError(cannot_change(attribute))
        raise SecurityError(f"a template must not use the attribute {attribute!r} of a {type(obj).__name__}")

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """Return a bounded version of `str.format` and `str.format_map`; None for other values."""
        if not isinstance(value, MethodType | BuiltinMethodType) or value.__name__ not in {"format", "format_map"}:
            return None
        text = value.__self__
        if not isinstance(text, str):
            return None
        formatter = _BoundedFormatter(self)

        def format_map(mapping: Mapping[str, Any]) -> str:
            return formatter.vformat(text, (), mapping)

        def format_all(*args: Any, **kwargs: Any) -> str:
            return formatter.vformat(text, args, kwargs)

        return format_map if value.__name__ == "format_map" else format_all

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Apply a binary operator, after charging the estimated size of the result."""
        budget = self.budget
        budget.step()
        if operator == "*":
            pay_for_product(budget, left, right)
        elif operator == "**":
            check_power(left, right)
        elif operator == "%" and isinstance(left, str):
            pay_for_percent(budget, left, right)
        return budget.paid(self.binop_table[operator](left, right))

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
        """Call a function, method or macro of a template, and charge its arguments and result."""
        budget = __self.budget
        budget.step()
        if isinstance(__obj, LoopContext) and args:
            args = (budget.steps(args[0]), *args[1:])
        elif isinstance(__obj, BuiltinMethodType) and isinstance(__obj.__self__, str):
            args = _iterators_as_lists(args)
            METHOD_ESTIMATES.get(__obj.__name__, by_length)(budget, __obj.__self__, *args, **kwargs)
        elif not isinstance(__obj, Macro) or __obj.catch_varargs or __obj.catch_kwargs:
            for value in (*args, *kwargs.values()):
                budget.pay_for(value)
        if __obj in (dict, Namespace):  # keys may collide: each takes the longer, the more there are
            args = tuple(cast("Any", arg) if isinstance(arg, dict) else budget.steps(arg) for arg in args)
        result = super().call(__context, __obj, *args, **kwargs)
        return result if isinstance(result, OWN) else budget.paid(result)


CHANGING = frozenset("append clear extend insert pop popitem remove reverse setdefault sort update".split())
"""Methods that change lists and dicts, which templates may not use."""


def cannot_change(method: str) -> str:
    """Return the error of a template that calls a method that changes a list or a dict."""
    return (
        f"{method!r}: a template cannot change lists and dicts; write {{% set ns = namespace(items=[], d={{}}) %}}, and "
        "{% set ns.items = ns.items + [x] %} or {% set ns.d = dict(ns.d, **{key: value}) %}"
    )


_METHODS: Mapping[type, frozenset[str]] = {
    str: frozenset(
        "capitalize casefold center count endswith expandtabs find index isalnum isalpha isdecimal isdigit islower "
        "isnumeric isspace istitle isupper join ljust lower lstrip partition removeprefix removesuffix replace rfind "
        "rindex rjust rpartition rsplit rstrip split splitlines startswith strip swapcase title upper zfill".split()
    ),
    dict: frozenset("copy get items keys values".split()),
    list: frozenset("copy count index".split()),
    tuple: frozenset("count grouper index list".split()),  # the groups of `groupby` are tuples
    float: frozenset(["is_integer"]),
}
"""Methods of plain values that a template may use."""


class _BoundedFormatter(SandboxedFormatter):
    """Formatter that charges fields to the budget."""

    _env: BoundedEnvironment

    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, str]:
        value, first = super().get_field(field_name, args, kwargs)
        self._env.budget.pay_for(value)  # charged by its printed size
        return value, first

    def format_field(self, value: Any, format_spec: str) -> Any:
        self._env.budget.step()
        self._env.budget.pay(sum(width_of(number) for number in re.findall(r"\d+", format_spec)))
        return Formatter.format_field(self, value, format_spec)


def _iterators_as_lists(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the arguments with iterators replaced by lists, so that their items can be counted."""
    return tuple(list(cast("Iterator[Any]", arg)) if isinstance(arg, Iterator) else arg for arg in args)


def _bounded(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a version of a filter that accepts and returns plain values only, and charges them to the budget."""
    wants: Any = getattr(function, "jinja_pass_arg", None)
    estimate = ESTIMATES.get(name, by_length)

    @pass_context
    @wraps(function)
    def call(context: Context, *args: Any, **kwargs: Any) -> Any:
        environment = cast("BoundedEnvironment", context.environment)
        budget = environment.budget
        budget.step()
        for value in (*args, *kwargs.values()):
            if not isinstance(value, _FILTER_ARGUMENT_TYPES):
                raise TypeError(no_plain_value(value))
        if name in ESTIMATES:
            args = _iterators_as_lists(args)
        estimate(budget, *args, **kwargs)
        first = {
            "context": (context,),
            "eval_context": (context.eval_ctx,),
            "environment": (environment,),
        }.get(wants.name if wants else "", ())
        return budget.paid(function(*first, *args, **kwargs))

    return call


_FILTER_ARGUMENT_TYPES = (str, int, float, list, tuple, dict, range, Undefined, Iterator, type(None))
"""Types of arguments that filters accept; lists and dicts contain only plain values, checked at their creation."""


class _PaidText:
    """Text stream that charges each part before it is kept."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._parts: list[str] = []

    @property
    def text(self) -> str:
        return "".join(self._parts)

    def write(self, part: str) -> int:
        self._budget.step()
        self._budget.pay(len(part))
        self._parts.append(part)
        return len(part)


@pass_environment
def _pprint(environment: BoundedEnvironment, value: Any) -> str:
    """Jinja's filter `pprint`. Below a long key, each line is indented by its length, so the text is charged in parts."""
    stream = _PaidText(environment.budget)
    pprint(value, stream=cast("IO[str]", stream))
    return stream.text.removesuffix("\n")


@pass_context
def _shown(context: Context, value: Any) -> str:
    """Return the rendered text of a value, after charging it."""
    budget = cast("BoundedEnvironment", context.environment).budget
    budget.step()
    budget.pay_for(value)
    return str(value)


@pass_context
def _steps(context: Context, value: Any) -> Iterator[Any]:
    if isinstance(value, BuiltinMethodType):
        raise TypeError(no_plain_value(value))
    return cast("BoundedEnvironment", context.environment).budget.steps(value)


@pass_context
def _concat(context: Context, values: list[Any]) -> str:
    return "".join(_shown(context, value) for value in values)


@pass_context
def _made(context: Context, value: Any) -> Any:
    return cast("BoundedEnvironment", context.environment).budget.paid(value)


_OWN_FILTERS: dict[str, Callable[..., Any]] = {
    "_concat": _concat,
    "_made": _made,
    "_steps": _steps,
}

READING = BoundedEnvironment()
"""Environment for parsing templates; rendering takes a copy with its own budget."""

GLOBALS = frozenset(cast("dict[str, Any]", READING.globals))  # pyright: ignore[reportUnknownMemberType]
FILTER_NAMES = frozenset(READING.filters) - frozenset(_OWN_FILTERS)
TEST_NAMES = frozenset(cast("dict[str, Any]", READING.tests))  # pyright: ignore[reportUnknownMemberType]


def environment(budget: Budget) -> BoundedEnvironment:
    """Return an environment for one rendering, with its own budget."""
    overlay = READING.overlay()
    overlay.budget = budget
    return overlay
