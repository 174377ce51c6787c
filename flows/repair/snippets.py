"""Rules on code and templates, and on the variables that they read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

from operad.flows.edit.operation import free_id
from operad.flows.formats.shapes import is_selector, list_of
from operad.flows.node_graph import Edge, NodeSpec
from operad.flows.repair.state import Proposal, State, params_of, with_params
from operad.flows.repair.walk import renamed
from operad.operators.sandbox.code import check_code
from operad.operators.sandbox.template import check_template, names_of
from operad.operators.sandbox.uses import walked_through
from operad.operators.variables import Selector, Text


def template_references(state: State) -> Iterator[Proposal]:
    """Replace references ``{{#id.variable#}}`` in a Jinja template by variables of the template."""
    for node in state.graph.nodes:
        if node.type != "template-transform" or not params_of(node):
            continue
        params = params_of(node)
        template, variables = params.get("template"), params.get("variables")
        if not isinstance(template, str) or not isinstance(variables, list) or not Text(template).selectors:
            continue
        declared = [list(item) for item in map(list_of, list_of(variables)) if item]
        name_by_variable = {
            tuple(pair[1]): str(pair[0]) for pair in declared if len(pair) == 2 and is_selector(pair[1])
        }
        names = {str(pair[0]) for pair in declared}
        for selector in Text(template).selectors:
            if tuple(selector) not in name_by_variable:
                name = _unique_name(re.sub(r"\W+", "_", selector.variable) or "value", names)
                name_by_variable[tuple(selector)] = name
                names.add(name)
                declared.append([name, list(selector)])
        text = Text(template).renamed(lambda each: f"{{{{ {name_by_variable[tuple(each)]} }}}}")  # noqa: B023 - called at once
        mended = {**params, "variables": declared, "template": text}
        what = "references in the template are variables of it"
        yield Proposal(node.id, what, "a template names only its own variables", with_params(state.graph, node, mended))


def _unique_name(name: str, names: set[str]) -> str:
    """Return a name that is not taken, by a number at its end, and that does not begin with a digit."""
    name = f"_{name}" if name[:1].isdigit() else name
    number = 2
    unique = name
    while unique in names:
        unique, number = f"{name}_{number}", number + 1
    return unique


def unknown_names(state: State) -> Iterator[Proposal]:
    """Remove undeclared names from a template, where they render as nothing."""
    for node in state.graph.nodes:
        known = state.known(node)
        if node.type != "template-transform" or known is None or check_template(known.params.template):
            continue
        template = known.params.template
        given = {variable.name for variable in known.params.variables}
        for name in [each for each in names_of(template) if each not in given]:
            mended = re.sub(r"\{\{-?\s*" + re.escape(name) + r"\s*-?\}\}", "", template)
            if mended != template:
                why = "no node gives it, and nothing would stand there"
                yield Proposal(node.id, f"template: {{{{ {name} }}}} is left out", why,
                               with_params(state.graph, node, {**node.params, "template": mended}))  # fmt: skip


def escapes(state: State) -> Iterator[Proposal]:
    """Unescape line ends and tabs in code that is invalid because they are escaped twice."""
    for node in state.graph.nodes:
        params = params_of(node)
        code = params.get("code")
        if node.type != "code" or not isinstance(code, str) or not re.search(r"\\\\?[nt]", code) or _is_code(code):
            continue
        for mended in (
            code.replace("\\n", "\n").replace("\\t", "\t").replace('\\"', '"'),
            _unescaped_outside_strings(code),
        ):
            if _is_code(mended):
                why = "it is not valid Python as it stands"
                graph = with_params(state.graph, node, {**params, "code": mended})
                yield Proposal(node.id, "code: line ends that are escaped twice are line ends", why, graph)


def _is_code(code: str) -> bool:
    return bool(code.strip()) and not any(issue.code == "code" for issue in check_code(code))


def _unescaped_outside_strings(code: str) -> str:
    """Return code with escaped line ends and tabs unescaped, except inside string literals on one line."""
    return re.sub(r"""("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|\\n|\\t""", _unescaped, code)


def _unescaped(found: re.Match[str]) -> str:
    return found[1] or ("\n" if found[0] == "\\n" else "\t")


def walked_lists(state: State) -> Iterator[Proposal]:
    """Make a parameter of a parameter-extractor a list if code iterates over it."""
    for node in state.graph.nodes:
        known = state.known(node)
        if node.type != "code" or known is None:
            continue
        walked = walked_through(known.params.code)
        for name, selector in known.params.variables:
            holder = state.graph.by_id.get(selector.node)
            if name not in walked or holder is None or holder.type != "parameter-extractor" or not state.known(holder):
                continue
            parameters = cast("list[Any]", holder.params["parameters"])
            mended = [
                [about, called, f"array[{kind}]"]
                if called == selector.variable and kind in ("number", "string")
                else [about, called, kind]
                for about, called, kind in parameters
            ]
            if mended != parameters:
                what = f"its parameter {selector.variable!r} is a list"
                why = f"{node.id!r} walks through it"
                yield Proposal(
                    holder.id, what, why, with_params(state.graph, holder, {**holder.params, "parameters": mended})
                )


def whole_extracts(state: State) -> Iterator[Proposal]:
    """Add a template with all outputs of a parameter-extractor for references to a generic output that it lacks."""
    graph = state.graph
    for node in graph.nodes:
        operator = state.known(node)
        if node.type != "parameter-extractor" or operator is None:
            continue
        names = list(dict.fromkeys(parameter.name for parameter in operator.params.parameters))
        generic_names = {
            reference.selector.variable
            for other in state.checker.nodes.values()
            for reference in other.references
            if reference.selector.node == node.id
            and _GENERIC_NAME.fullmatch(reference.selector.variable)
            and reference.selector.variable not in names
        }
        if len(names) < 2 or not generic_names or not all(name.isidentifier() for name in names):
            continue
        template_id = free_id(graph.by_id, node.parent)
        fields = ",\n".join(f'  "{name}": {{{{ {name} | tojson }}}}' for name in names)
        template = NodeSpec(
            template_id,
            "template-transform",
            {"variables": [[name, [name, node.id]] for name in names], "template": f"{{\n{fields}\n}}"},
            node.parent,
        )
        template_output = Selector("output", template_id)
        redirected = {Selector(name, node.id): template_output for name in generic_names}
        nodes = [
            replace(other, params=renamed(other, lambda old: redirected.get(old, old)))  # noqa: B023 - called at once
            for other in graph.nodes
        ]
        index = next(number for number, other in enumerate(nodes) if other.id == node.id)
        nodes.insert(index + 1, template)
        edges = [replace(edge, source=template_id) if edge.source == node.id else edge for edge in graph.edges]
        edges.append(Edge(node.id, template_id))
        what = (
            f"{', '.join(sorted(generic_names))} of it is a text with all that it reads out, "
            f"by {template_id!r}, a template-transform that is added"
        )
        why = "it has no such variable, and several others"
        yield Proposal(node.id, what, why, replace(graph, nodes=nodes, edges=edges))


_GENERIC_NAME = re.compile(r"(output|result|parameters|params|json|object|data|text|extracted_\w+)s?", re.IGNORECASE)
