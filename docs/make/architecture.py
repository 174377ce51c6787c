"""Size and imports of packages and files: `python docs/make/architecture.py` prints them.

Imports count wherever they stand: at the top, in functions, for types only.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import networkx as nx
import walks

ROOT = Path(__file__).parents[2]
LAYERS = ("integrations", "cli", "server", "configs", "evaluators", "flows", "operators", "runtime")
"""Layers from the top down; each imports only those below it."""


@dataclass(frozen=True, slots=True)
class Module:
    """Module.

    Attributes:
        name: Without `operad.`, such as ``runtime.values.message``.
        lines: Number of lines.
        about: The first line of its docstring.
        imports: The modules of Operad that it imports.
    """

    name: str
    lines: int
    about: str
    imports: frozenset[str]

    @property
    def package(self) -> str:
        """Package of the module: the first below its layer, or the layer itself."""
        parts = self.name.split(".")
        return ".".join(parts[:2]) if (ROOT / parts[0] / parts[-1 if len(parts) < 2 else 1]).is_dir() else parts[0]


def modules() -> Sequence[Module]:
    """Return all modules, sorted by name."""
    files = {_name(file): file for layer in LAYERS for file in sorted((ROOT / layer).rglob("*.py"))}
    found: list[Module] = []
    for name, file in files.items():
        tree = ast.parse(text := file.read_text(encoding="utf-8"))
        about = (ast.get_docstring(tree) or "").partition("\n")[0]
        imports = frozenset(
            each
            for each in _imports(ast.walk(tree) if "import_module" in text else _statements(tree), files)
            if each != name
        )
        found.append(Module(name, text.count("\n"), about, imports))
    return found


def _name(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _statements(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.stmt | ast.excepthandler | ast.match_case):
            yield node
            yield from _statements(node)


def _imports(nodes: Iterator[ast.AST], known: Mapping[str, Path]) -> Iterator[str]:
    for node in nodes:
        named: list[str] = []
        if isinstance(node, ast.ImportFrom) and node.module:
            named = [f"{node.module}.{each.name}" for each in node.names]
        elif isinstance(node, ast.Import):
            named = [each.name for each in node.names]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module") and node.args:
            named = [str(each.value) for each in node.args if isinstance(each, ast.Constant)]
        for each in named:
            name = each.removeprefix("operad.")
            if each.startswith("operad."):
                yield name if name in known else name.rpartition(".")[0]


def graph_of(found: Sequence[Module], layer: str = "") -> nx.DiGraph[str]:
    """Return the graph of imports between packages of a layer, or between the layers."""
    homes = {each.name: each.package if layer else each.name.partition(".")[0] for each in found}
    graph: nx.DiGraph[str] = nx.DiGraph()
    for each in found:
        home = homes[each.name]
        if home.startswith(layer):
            graph.add_node(home)
            graph.add_edges_from(
                (home, homes[other])
                for other in each.imports
                if homes.get(other, home) != home and homes[other].startswith(layer)
            )
    return graph


def cycles(graph: nx.DiGraph[str]) -> list[list[str]]:
    """Return the groups of packages or files that import each other, directly or indirectly; the largest first."""
    groups = [sorted(each) for each in nx.strongly_connected_components(graph) if len(each) > 1]
    return sorted(groups, key=lambda each: (-len(each), each))


def files_graph(found: Sequence[Module]) -> nx.DiGraph[str]:
    """Return the graph of imports between files."""
    graph: nx.DiGraph[str] = nx.DiGraph()
    for each in found:
        graph.add_node(each.name)
        graph.add_edges_from((each.name, other) for other in each.imports)
    return graph


def upward(found: Sequence[Module]) -> list[str]:
    """Return imports of a layer from a higher one."""
    rank = {layer: number for number, layer in enumerate(LAYERS)}
    layer = {each.name: rank[each.name.partition(".")[0]] for each in found}
    return [
        f"{each.name} imports {other}"
        for each in found
        for other in sorted(each.imports)
        if layer.get(other, len(LAYERS)) < layer[each.name]
    ]


def table(found: Sequence[Module], *, sizes: bool = True) -> Iterator[str]:
    """Yield the rows of a table of packages: modules and lines, or the purpose, and the imported packages of the layer."""
    yield f"| package |{' modules | lines' if sizes else ' purpose'} | imports of its layer |"
    yield f"|---|{'---|---' if sizes else '---'}|---|"
    purposes = {each.name: each.about for each in found}
    for layer in reversed(LAYERS):
        graph = graph_of(found, layer)
        packages = {each.package for each in found if each.name.partition(".")[0] == layer}
        order = sorted(packages, key=lambda each: (len(nx.descendants(graph, each)) if each in graph else 0, each))
        for package in order:
            inside = [each for each in found if each.package == package]
            others = sorted(graph.successors(package)) if package in graph else []
            names = ", ".join(other.rpartition(".")[2] for other in others)
            about = f"{len(inside)} | {sum(each.lines for each in inside):,}" if sizes else purposes[package]
            yield f"| `{package}` | {about} | {names} |"


def main() -> None:
    """Print the table, imports upward, cycles, and the modules of a run, a resume and a load."""
    found = modules()
    print("\n".join(table(found)))
    print(f"\nimports from a higher layer: {len(upward(found))}")
    print("\n".join(upward(found)))
    for layer in LAYERS:
        around = cycles(graph_of(found, layer))
        print(
            f"cycles between packages of {layer}: {len(around)}{''.join(f' ({chr(44).join(each)})' for each in around)}"
        )
    around = cycles(files_graph(found))
    print(f"cycles of files: {len(around)}")
    for circle in around:
        print(f"  {len(circle)}: {', '.join(circle)}")
    print(f"modules of a run of two operators and an evaluator: {len(set(walks.run_walk()))}")
    print(f"modules of a durable resume: {len(set(walks.resume_walk()))}")
    stays = walks.load_stays()
    most = ", ".join(f"{name} {count}" for name, count in stays.most_common(3))
    print(f"stays in modules of configs in a load: {sum(stays.values())}; most in {most}")
    for layer in (*LAYERS, ""):
        inside = [each for each in found if each.name.startswith(layer)]
        print(f"{layer or 'library'}: {len(inside)} files, {sum(each.lines for each in inside):,} lines")


if __name__ == "__main__":
    main()
