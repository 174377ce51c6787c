"""Names that a request marks as variables, and whether a workflow has them.

A name is marked by its form alone: it stands in backquotes, or beside the word *variable*, in one of several languages.
No sentence is read. Whether a name is an input or an output is up to the plan; that it is one of them is checked.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from operad.flows.check import Checker, NodeType
from operad.flows.formats.shapes import fields_of, list_of
from operad.flows.generation.plan import Plan
from operad.flows.node_graph import NodeGraph

_VARIABLE = (
    r"(?:\b(?:variables?|variablen|variabele[ns]?|variabil[ei]|vari[aá]ve(?:l|is)|zmienn[ae]|değişken(?:ler)?)\b"
    r"|\bпеременн\w+|变量|變數|變量|変数|변수)"
)
"""The word *variable*: English, French and Spanish, German, Dutch, Italian, Portuguese, Polish, Turkish, Russian, Chinese,
Japanese, Korean."""

_NAME = r"[^\W\d]\w*"
_QUOTED = rf"[`'\"“‘«「„]({_NAME})[`'\"”’»」“]"
_LINK = (
    r"(?:\s*(?:names?|called|named|namens|genannt|appelée?s?|nommée?s?|llamad[ao]s?|chamad[ao]s?|名称?|叫做?|名为|为|是)(?!\w))?"
    r"\s*[:：=]?\s*"
)
"""Words between *variable* and a name."""

_MARKS = re.compile(
    rf"[(（\[]\s*(?:\w+\s+){{0,2}}?(?P<word>{_VARIABLE}){_LINK}(?P<inside>[^()（）\[\]\n]*)"  # (variables a and b)
    rf"|{_VARIABLE}{_LINK}{_QUOTED}"  # a variable called "a"
    rf"|{_VARIABLE}\s+(?:called|named|namens|nommée|llamada|chamada)\s+(?P<called>{_NAME})"
    rf"|{_VARIABLE}\s+(?P<long>[^\W\d_]\w*_\w*)"
    rf"|`(?P<quoted>{_NAME})`",
    re.IGNORECASE,
)
_FENCED = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_SEVERAL = re.compile(
    r"variables|variablen|variabelen|variabili|variáveis|variaveis|zmienne|değişkenler", re.IGNORECASE
)
_BETWEEN = re.compile(
    r"\s*[,;/&]\s*(?:(?:and|or|und|oder|et|ou|y|o|e|en)\s+)?|\s+(?:and|or|und|oder|et|ou|y|o|e|en)\s+"
)
_BETWEEN_HAN = re.compile(r"\s*[、/和与及或と]\s*|\s+및\s+")
_TYPES = re.compile(r"(?:text|string|number|boolean|object|array|list|file|integer)s?", re.IGNORECASE)


def marked_names(request: str) -> dict[str, bool]:
    """Return the names that a request marks, in order, each with True if it is called a variable.

        marked_names("Sum up the `report` (variable summary).")  # {"report": False, "summary": True}

    A name in backquotes alone may be something else: a tool, a field of an answer, a value.

    Args:
        request: The request.
    """
    names: dict[str, bool] = {}
    for mark in _MARKS.finditer(_FENCED.sub(" ", request)):
        if mark["word"]:
            found = dict(_listed(mark["word"], mark["inside"]))
        else:
            found = {name: name != mark["quoted"] for name in filter(None, mark.groups())}
        for name, certain in found.items():
            names[name] = names.get(name, False) or certain
    return names


def _listed(word: str, inside: str) -> Iterator[tuple[str, bool]]:
    """Yield the names at the beginning of a text in brackets: one, or several after a plural or with Chinese commas.

    The first is uncertain if another word follows it, as in "(variable interest rate)". After a colon, its values
    follow, and no other names.
    """
    is_han = word[0] >= "\u2e80"
    first, *others = (_BETWEEN_HAN if is_han else _BETWEEN).split(inside.strip())
    if found := re.match(rf"(?:{_QUOTED}|({_NAME}))(?:(\s+\w)|\s*[:：])?", first):
        yield found[1] or found[2], not found[3]
        is_list = found[0][-1] not in ":：" and not found[3]
        for other in others if is_list and (is_han or _SEVERAL.fullmatch(word)) else ():
            name = re.fullmatch(rf"{_QUOTED}|({_NAME})", other.strip())
            if name is None or _TYPES.fullmatch(other.strip()):
                return
            yield name[1] or name[2], True


def inputs_and_outputs(graph: NodeGraph) -> dict[str, str]:
    """Return the names of what people give to a workflow and get from it, each with the id of its node."""
    keys = {"start": "variables", "conversation": "variables", "human-input": "inputs", "end": "outputs"}
    names: dict[str, str] = {}
    for spec in graph.nodes:
        for each in list_of(fields_of(spec.params).get(keys.get(spec.type, ""))):
            name: Any = each if isinstance(each, str) else (list_of(each) or [""])[0]
            names.setdefault(str(name), spec.id)
    return names


def missing_names(
    request: str,
    graph: NodeGraph,
    base: NodeGraph,
    types: Mapping[str, NodeType],
    plan: Plan,
    known: Collection[str] = (),
) -> Iterator[str]:
    """Yield a finding for each name that a request marks and that is neither an input nor an output.

    Args:
        request: The latest request.
        graph: The workflow that was made.
        base: The workflow before; without nodes for a new one.
        types: Node types by name.
        plan: The plan. Names that it declares to be neither an input nor an output are believed if the request does not
            call them variables, if the workflow had them before, or if a node has a variable of this name. What it
            leaves out is told to the user, and no finding.
        known: Other names that a request may mention: of tools, models, types, and of other things that are not lost.
    """
    given, before = inputs_and_outputs(graph), inputs_and_outputs(base)
    inner = {name for outputs in Checker(graph, types).outputs.values() for name in outputs}
    marked, neither = marked_names(request), plan.neither
    left_out = {word for pair in plan.left_out.items() for text in pair for word in re.findall(_NAME, text)}
    for name, certain in marked.items():
        excused = name in left_out or (name in neither and (not certain or name in before or name in inner))
        if name not in given and not excused and (certain or name not in known):
            code = "variable" if certain and name not in before else "name"
            near = get_close_matches(name, [each for each in given if each not in marked], n=1, cutoff=0.6)
            advice = f"rename {near[0]!r}, or add it" if near else "add it"
            there = ", ".join(given) or "none"
            yield (
                f"[{code}] {name}: the request names it, and no input or output is called so; there are: {there:.300}; "
                f"{advice}, or contest this"
            )
