"""A Jinja environment in which every step looks at the clock, and every value is paid for.

Imported only when a template is rendered, since it imports Jinja.
"""

from __future__ import annotations

import re
from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, Mapping, Sequence, ValuesView
from functools import wraps
from string import Formatter
from time import monotonic
from types import BuiltinMethodType, MethodType
from typing import Any, cast

from jinja2 import ChainableUndefined, nodes, pass_context
from jinja2.exceptions import SecurityError, TemplateRuntimeError
from jinja2.filters import FILTERS  # pyright: ignore[reportUnknownVariableType]
from jinja2.runtime import Context, LoopContext, Macro, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment, SandboxedFormatter
from jinja2.utils import Cycler, Joiner, Namespace
from jinja2.visitor import NodeTransformer
from markupsafe import Markup

_VALUE = 64
"""Bytes that a value is counted as, its characters aside."""

_AT_ONCE = 100_000
"""Bytes that are paid for together."""

_MOST_BITS = 13_000
"""Of a whole number: more digits than about 4,000 Python does not print."""

_WIDEST = 10_000
"""The largest width, precision or indentation."""


class LimitError(TemplateRuntimeError):
    """A template reached a limit."""


class Budget:
    """What is left of a template's time and room.

    Args:
        seconds: How long it may take, from now.
        memory_bytes: How much it may make.

    Attributes:
        left: The bytes that it may still make.
    """

    def __init__(self, seconds: float, memory_bytes: int) -> None:
        self._seconds = seconds
        self._memory = memory_bytes
        self.left = memory_bytes
        self._end = monotonic() + seconds

    def step(self) -> None:
        """Look at the clock.

        Raises:
            LimitError: Time is over.
        """
        if monotonic() > self._end:
            raise LimitError(f"it takes longer than {self._seconds:g} s, the limit seconds; let it do less")

    def pay(self, size: int) -> None:
        """Take bytes from what is left.

        Raises:
            LimitError: There are not as many.
        """
        self.left -= size
        if self.left < 0:
            raise LimitError(f"it makes more than {self._memory:,} bytes of values, the limit memory_bytes")

    def pay_for(self, value: object) -> None:
        """Pay for a value and all in it, a value that stands in it twice twice.

        Raises:
            LimitError: It is too large.
            TypeError: There is something in it that JSON does not have.
        """
        waiting: list[object] = [value]  # the last first, so that it holds little more than one way down
        cost = 0
        while waiting:
            one = waiting.pop()
            cost += _VALUE
            if isinstance(one, str):
                cost += len(one)
            elif isinstance(one, int):
                if one.bit_length() > _MOST_BITS:
                    raise LimitError(f"a whole number of {one.bit_length():,} bits is too large")
            elif isinstance(one, list | tuple):
                waiting.extend(cast("Sequence[object]", one))
            elif isinstance(one, dict):
                pairs = cast("dict[object, object]", one)
                waiting.extend(pairs)
                waiting.extend(pairs.values())
            elif one is not None and not isinstance(one, float | range | Undefined):
                raise TypeError(_no_plain_value(one))
            if cost > _AT_ONCE:
                self.pay(cost)
                self.step()
                cost = 0
        self.pay(cost)

    def steps(self, items: Iterable[Any]) -> Iterator[Any]:
        """The items, with a look at the clock at each."""
        for item in items:
            self.step()
            yield item

    def paid(self, value: Any) -> Any:
        """A value that was made, paid for; what yields values pays for each when it comes.

        Raises:
            LimitError: It is too large.
            TypeError: A template cannot use it.
        """
        match value:
            case Markup():
                value = str(value)
            case Iterator():
                return self._paid_one_by_one(cast("Iterator[Any]", value))
            case KeysView() | ValuesView() | ItemsView():
                value = list(cast("Iterable[Any]", value))
            case _:
                pass
        self.pay_for(value)
        return value

    def _paid_one_by_one(self, items: Iterator[Any]) -> Iterator[Any]:
        for item in items:
            self.step()
            self.pay_for(item)
            yield item


def _no_plain_value(value: object) -> str:
    if isinstance(value, BuiltinMethodType):
        name = value.__name__
        return f"{name!r} is a method here: write ['{name}'] for a value of that name, or {name}() to call it"
    if isinstance(value, Iterator) and not isinstance(value, _OWN):
        return "a filter that yields values one by one is no plain value: add |list"
    return f"{type(value).__name__} is no plain value"


class _Watched(NodeTransformer):
    """Rewrites a template so that what it does is watched.

    Loops go through a filter, and so does what makes values without an operator, a filter or a
    call: literals of lists and dicts, slices, ``~``. Text becomes a constant, which is paid for
    whenever it is written.
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
    """An environment whose templates pay from a budget."""

    intercepted_binops = frozenset(["+", "*", "**", "%"])
    budget: Budget

    def __init__(self) -> None:
        super().__init__(undefined=ChainableUndefined, optimized=False, finalize=_shown, cache_size=0)
        filters = cast("dict[str, Callable[..., Any]]", FILTERS)
        self.filters = {name: _bounded(name, function) for name, function in filters.items()} | _OWN_FILTERS
        del self.globals["lipsum"]  # pyright: ignore[reportUnknownMemberType]

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        return cast("nodes.Template", _Watched().visit(super()._parse(source, name, filename)))

    def handle_exception(self, source: str | None = None) -> Any:
        """Let errors of rendering be, without rewriting where they come from."""
        if source is not None:
            super().handle_exception(source)
        raise

    def getattr(self, obj: Any, attribute: str) -> Any:
        """An attribute; of a dict its value of that name, whatever the name, but for a few methods."""
        if isinstance(obj, Undefined):
            return obj
        if isinstance(obj, dict) and attribute not in _METHODS[dict]:
            return self.getitem(cast("dict[Any, Any]", obj), attribute)
        return super().getattr(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        """An item; of a dict never a method."""
        if isinstance(obj, Undefined):
            return obj
        if not isinstance(obj, dict):
            return super().getitem(obj, argument)
        try:
            return cast("dict[Any, Any]", obj)[argument]
        except (TypeError, LookupError):
            return self.undefined(obj=obj, name=argument)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Whether a template may have an attribute: of plain values a few methods, of Jinja's own what is public."""
        for kind, methods in _METHODS.items():
            if isinstance(obj, kind):
                return attr in methods
        return isinstance(obj, _OWN) and super().is_safe_attribute(obj, attr, value)

    def unsafe_undefined(self, obj: Any, attribute: str) -> Undefined:
        """Refuse at once, since what is undefined would be shown as nothing."""
        raise SecurityError(f"a template must not use the attribute {attribute!r} of a {type(obj).__name__}")

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """Of ``str.format`` a version in bounds."""
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
        """Do what an operator does."""
        budget = self.budget
        budget.step()
        if operator == "*":
            _pay_for_product(budget, left, right)
        elif operator == "**":
            _check_power(left, right)
        elif operator == "%" and isinstance(left, str):
            _pay_for_percent(budget, left, right)
        return budget.paid(self.binop_table[operator](left, right))

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
        """Call what a template calls."""
        budget = __self.budget
        budget.step()
        if isinstance(__obj, LoopContext) and args:
            args = (budget.steps(args[0]), *args[1:])
        elif isinstance(__obj, BuiltinMethodType) and isinstance(__obj.__self__, str):
            args = _in_lists(args)
            _METHOD_ESTIMATES.get(__obj.__name__, _by_length)(budget, __obj.__self__, *args, **kwargs)
        elif not isinstance(__obj, Macro) or __obj.catch_varargs or __obj.catch_kwargs:
            for value in (*args, *kwargs.values()):
                budget.pay_for(value)
        result = super().call(__context, __obj, *args, **kwargs)
        return result if isinstance(result, _OWN) else budget.paid(result)


_OWN = (Cycler, Joiner, LoopContext, Macro, Namespace)
"""Objects of Jinja's own: only the loop, a call, and an attribute may use them."""

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
"""What a template may use of plain values."""


class _BoundedFormatter(SandboxedFormatter):
    """Formats fields in bounds."""

    _env: BoundedEnvironment

    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, str]:
        value, first = super().get_field(field_name, args, kwargs)
        self._env.budget.pay_for(value)  # as large as it is printed
        return value, first

    def format_field(self, value: Any, format_spec: str) -> Any:
        self._env.budget.step()
        self._env.budget.pay(sum(_width(number) for number in re.findall(r"\d+", format_spec)))
        return Formatter.format_field(self, value, format_spec)


def _width(number: int | str) -> int:
    """A width, if it is one that may be asked for."""
    if len(str(number)) > len(str(_WIDEST)) or abs(int(number)) > _WIDEST:
        raise LimitError(f"{str(number)[:20]} is too wide; {_WIDEST:,} is the most")
    return abs(int(number))


def _size(budget: Budget, value: object) -> int:
    """What a value costs, which is paid."""
    before = budget.left
    budget.pay_for(value)
    return before - budget.left


def _pay_for_product(budget: Budget, left: Any, right: Any) -> None:
    if isinstance(left, int) and isinstance(right, int):
        return  # of numbers that are bounded themselves
    for value, times in ((left, right), (right, left)):
        if isinstance(value, str | list | tuple) and isinstance(times, int) and times > 1:
            budget.pay(_size(budget, cast("object", value)) * times)


def _check_power(base: Any, power: Any) -> None:
    if isinstance(base, int) and isinstance(power, int) and abs(base) > 1 and base.bit_length() * power > _MOST_BITS:
        raise LimitError(
            f"a number of {base.bit_length():,} bits to a power of {power.bit_length():,} bits is too large"
        )


_PERCENT = re.compile(r"%(?:\([^)]*\))?[-#0 +]*(\*|\d*)(?:\.(\*|\d*))?")


def _pay_for_percent(budget: Budget, text: str, values: Any) -> None:
    found = _PERCENT.findall(text)
    for widths in found:
        if "*" in widths:
            raise LimitError("a width in a format cannot be '*' here; write the number")
        budget.pay(sum(_width(width) for width in widths if width))
    budget.pay(_size(budget, values) * len(found) + len(text))


def _by_length(budget: Budget, value: Any, *args: Any, **kwargs: Any) -> None:
    """Of text at least its length: what most methods and filters make of it is about as long."""
    if isinstance(value, str):
        budget.pay(len(value))


def _by_parts(budget: Budget, value: Any, *args: Any, **kwargs: Any) -> None:
    """What cuts a text into many values, or is slow."""
    if isinstance(value, str):
        budget.pay(len(value) * _VALUE)


def _by_width(budget: Budget, value: Any, width: Any = 80, *args: Any, **kwargs: Any) -> None:
    if isinstance(width, int):
        budget.pay(_width(width))


def _tabs(budget: Budget, value: Any, tabsize: Any = 8) -> None:
    budget.pay(str(value).count("\t") * _width(tabsize))


def _replaced(budget: Budget, value: Any, old: Any = "", new: Any = "", *args: Any, **kwargs: Any) -> None:
    text, old, new = str(value), str(old), str(new)
    budget.pay((text.count(old) if old else len(text) + 1) * len(new) + len(text))


def _indented(budget: Budget, value: Any, width: Any = 4, *args: Any, **kwargs: Any) -> None:
    each = len(width) if isinstance(width, str) else _width(width)
    budget.pay((len(str(value).splitlines()) + 1) * each)


def _joined(budget: Budget, value: Any, d: Any = "", *args: Any, **kwargs: Any) -> None:
    budget.pay(len(value) * len(str(d)))


def _text_joined(budget: Budget, text: str, items: Any) -> None:
    budget.pay(len(items) * len(text))


def _wrapped(
    budget: Budget, value: Any, width: Any = 79, break_long_words: Any = True, wrapstring: Any = None, *args: Any
) -> None:
    _by_parts(budget, str(value))
    lines = 2 * len(str(value)) // max(1, width) + len(str(value).splitlines()) + 1
    budget.pay(lines * len(wrapstring or "\n"))


def _batched(budget: Budget, value: Any, linecount: Any = 1, fill_with: Any = None) -> None:
    _by_parts(budget, value)
    budget.pay(_VALUE * _width(linecount))


def _rounded(budget: Budget, value: Any, precision: Any = 0, *args: Any, **kwargs: Any) -> None:
    if abs(precision) > 300:
        raise LimitError(f"a precision of {precision} is too large")


def _dumped(budget: Budget, value: Any, indent: Any = None) -> None:
    if indent is not None and not 0 <= int(indent) <= 16:
        raise LimitError(f"an indentation of {indent} is too large; 16 is the most")


def _summed(budget: Budget, value: Any, attribute: Any = None, start: Any = 0) -> None:
    if not isinstance(start, int | float):
        raise TypeError("sum adds numbers only")


def _formatted(budget: Budget, value: Any, *args: Any, **kwargs: Any) -> None:
    _pay_for_percent(budget, str(value), kwargs or args)


_ESTIMATES: Mapping[str, Callable[..., None]] = {
    **dict.fromkeys(("batch", "slice"), _batched),
    **dict.fromkeys(("center", "ljust", "rjust", "zfill"), _by_width),
    **dict.fromkeys(
        "list map max min partition pprint reject rpartition rsplit select sort split splitlines striptags title "
        "unique urlize wordcount".split(),
        _by_parts,
    ),
    "expandtabs": _tabs,
    "format": _formatted,
    "indent": _indented,
    "join": _joined,
    "replace": _replaced,
    "round": _rounded,
    "sum": _summed,
    "tojson": _dumped,
    "wordwrap": _wrapped,
}
"""What methods of texts, and filters, cost before they are done; what they make is paid for afterwards."""


_METHOD_ESTIMATES = {**_ESTIMATES, "join": _text_joined}


def _in_lists(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments, with lists for what yields values one by one, so that they can be counted."""
    return tuple(list(cast("Iterator[Any]", arg)) if isinstance(arg, Iterator) else arg for arg in args)


def _bounded(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A filter that takes and makes plain values only, and pays for them."""
    wants: Any = getattr(function, "jinja_pass_arg", None)
    estimate = _ESTIMATES.get(name, _by_length)

    @pass_context
    @wraps(function)
    def call(context: Context, *args: Any, **kwargs: Any) -> Any:
        environment = cast("BoundedEnvironment", context.environment)
        budget = environment.budget
        budget.step()
        for value in (*args, *kwargs.values()):
            if not isinstance(value, _FILTERED):
                raise TypeError(_no_plain_value(value))
        if name in _ESTIMATES:
            args = _in_lists(args)
        estimate(budget, *args, **kwargs)
        first = {
            "context": (context,),
            "eval_context": (context.eval_ctx,),
            "environment": (environment,),
        }.get(wants.name if wants else "", ())
        return budget.paid(function(*first, *args, **kwargs))

    return call


_FILTERED = (str, int, float, list, tuple, dict, range, Undefined, Iterator, type(None))
"""What filters take; lists and dicts were seen to hold plain values only when they were made."""


@pass_context
def _shown(context: Context, value: Any) -> str:
    """What stands in the text for a value."""
    budget = cast("BoundedEnvironment", context.environment).budget
    budget.step()
    budget.pay_for(value)
    return str(value)


@pass_context
def _steps(context: Context, value: Any) -> Iterator[Any]:
    if isinstance(value, BuiltinMethodType):
        raise TypeError(_no_plain_value(value))
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
"""What templates are read with; rendering takes a copy, with a budget of its own."""

GLOBALS = frozenset(cast("dict[str, Any]", READING.globals))  # pyright: ignore[reportUnknownMemberType]
FILTER_NAMES = frozenset(READING.filters) - frozenset(_OWN_FILTERS)
TEST_NAMES = frozenset(cast("dict[str, Any]", READING.tests))  # pyright: ignore[reportUnknownMemberType]


def environment(budget: Budget) -> BoundedEnvironment:
    """An environment for one rendering."""
    own = READING.overlay()
    own.budget = budget
    return own
