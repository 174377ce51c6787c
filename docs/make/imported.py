"""`docs/reference/imports.md`: support of each field of imported files, from the declarations behind the remarks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from operad.flows.formats.fields import Table, Use
from operad.integrations.coze import remarks as coze
from operad.integrations.dify import remarks as dify
from operad.integrations.flowise import remarks as flowise

HEAD = """\
# Fields of imported files

<!-- Written by docs/make/reference.py from integrations/*/remarks.py. -->

This page lists every field of Dify and Flowise files and Coze archives, and how Operad handles it. It is made from the declarations
that `operad check`, `convert` and `run` use ([formats](../formats.md#imported-files)). Nested fields have a path with
dots; `*` stands for any name.

| fate | meaning |
|---|---|
| honoured | works as on the platform |
| no effect | has no effect on a run: titles, positions on the canvas, derived values |
| note | is handled differently, such as the model, which the run names; `operad check` reports it with the code `note`, and the file runs |
| lossy | the result may differ; `operad check` fails with the code `lossy`, and `operad run` needs `--lossy` |
| refused | is not supported; `operad check` fails, and the file cannot be run |

Fields that are not listed are lossy as well. Node types that are not listed are not supported: code `unknown-type`.
"""


def page() -> str:
    """Return the page."""
    of_dify = {"Around the nodes": dify.FILE, "Every node: data": dify.ANY_NODE, "Every node: around data": dify.AROUND,
               "Edges": dify.EDGE} | {f"`{name}`": each for name, each in dify.NODES.items()}  # fmt: skip
    of_coze = {"Every node": coze.AROUND | Table(None, {"parameters": coze.ANY_NODE}), "Plugins": coze.PLUGIN}
    of_coze |= {f"`{name}`": each for name, each in coze.NODES.items()}
    of_coze |= {f"`{ours}`, from {theirs}": each for (theirs, ours), each in coze.FORM_FIELDS.items()}
    of_flowise = {f"`{kind}`": each for kind, each in flowise.FIELDS.items()}
    return "\n".join([HEAD, *_section("Dify", of_dify), *_section("Coze", of_coze), *_section("Flowise", of_flowise)])


def _section(platform: str, tables: Mapping[str, Table]) -> Iterator[str]:
    yield f"## {platform}\n"
    yield "| where | fate | fields |\n|---|---|---|"
    for where, table in tables.items():
        yield from _rows(where, table)
    yield ""


def _rows(where: str, table: Table) -> Iterator[str]:
    declared = dict(table.paths())
    for use in (Use.HONOURED, Use.NO_EFFECT):
        if names := [f"`{path}`" for path, each in declared.items() if each.use is use]:
            yield f"| {where} | {use.value} | {', '.join(names)} |"
    for use in (Use.NOTE, Use.LOSSY, Use.REFUSED):
        said: dict[str, list[str]] = {}
        for path, each in declared.items():
            if each.use is use:
                said.setdefault(each.behaviour, []).append(f"`{path}`")
        if said:
            cells = "; ".join(f"{', '.join(paths)}: {says}" for says, paths in said.items())
            yield f"| {where} | {use.value} | {cells} |"
