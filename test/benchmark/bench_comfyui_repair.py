"""Measure how many slips seeded into the code of official ComfyUI workflows the rules repair without a model.

    python test/benchmark/bench_comfyui_repair.py [--data ../shared/data] [--seed 0] [--each 5]

Each workflow is written as code, as a model would be asked for it, with one slip: a class or an input that is misspelt
(two letters swapped, one doubled or left out, capitals changed), a value or a link that is dropped, a variable that is
misspelt. `seen` counts the slips that cause issues, `clean` those without additional issues after the repair, and `exact` those
whose workflow is the original again. A dropped value is replaced by its default, and so is seldom exact.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from time import perf_counter

from operad.flows.node_graph import NodeGraph
from operad.integrations.comfyui.formats import Definitions, check, dump_code, executable, load, read_definitions
from operad.integrations.comfyui.generation.classes import offered
from operad.integrations.comfyui.generation.drafts import Draft, read_answer
from operad.integrations.comfyui.generation.findings import findings
from operad.integrations.comfyui.generation.rules import mend

DATA = Path(__file__).resolve().parents[3] / "shared/data"
NOTHING = NodeGraph()

Slip = Callable[[NodeGraph, random.Random, Definitions], NodeGraph | None]


def misspelt(word: str, chance: random.Random) -> str:
    """The word with a slip."""
    place = chance.randrange(len(word) - 1) if len(word) > 1 else 0
    ways = [
        word[:place] + word[place + 1 : place + 2] + word[place] + word[place + 2 :],
        word[:place] + word[place] + word[place:],
        word[:place] + word[place + 1 :],
        word.lower() if word.lower() != word else word.upper(),
    ]
    return chance.choice([each for each in ways if each and each != word] or [word + word])


def wrong_class(graph: NodeGraph, chance: random.Random, definitions: Definitions) -> NodeGraph | None:
    """A class that is misspelt."""
    node = chance.choice(graph.nodes)
    slip = misspelt(node.type, chance)
    if slip in definitions.classes or not slip.isidentifier():
        return None
    return replace(graph, nodes=[replace(each, type=slip) if each is node else each for each in graph.nodes])


def wrong_value(graph: NodeGraph, chance: random.Random, definitions: Definitions) -> NodeGraph | None:
    """An input of a value that is misspelt."""
    able = [node for node in graph.nodes if node.params]
    node = chance.choice(able)
    name = chance.choice(list(node.params))
    slip = misspelt(name, chance)
    if slip in node.params or not slip.isidentifier():
        return None
    params = {slip if key == name else key: value for key, value in node.params.items()}
    return replace(graph, nodes=[replace(each, params=params) if each is node else each for each in graph.nodes])


def wrong_link(graph: NodeGraph, chance: random.Random, definitions: Definitions) -> NodeGraph | None:
    """An input of a link that is misspelt."""
    if not graph.edges:
        return None
    edge = chance.choice(graph.edges)
    slip = misspelt(edge.input, chance)
    if not slip.isidentifier():
        return None
    return replace(graph, edges=[replace(each, input=slip) if each is edge else each for each in graph.edges])


def no_value(graph: NodeGraph, chance: random.Random, definitions: Definitions) -> NodeGraph | None:
    """A value that is dropped."""
    node = chance.choice([node for node in graph.nodes if node.params])
    gone = chance.choice(list(node.params))
    params = {key: value for key, value in node.params.items() if key != gone}
    return replace(graph, nodes=[replace(each, params=params) if each is node else each for each in graph.nodes])


def no_link(graph: NodeGraph, chance: random.Random, definitions: Definitions) -> NodeGraph | None:
    """A link that is dropped."""
    if not graph.edges:
        return None
    gone = chance.choice(graph.edges)
    return replace(graph, edges=[each for each in graph.edges if each is not gone])


def wrong_option(graph: NodeGraph, chance: random.Random, definitions: Definitions) -> NodeGraph | None:
    """An option in other capitals or misspelt."""
    able = [
        (node, name)
        for node in graph.nodes
        for name, value in node.params.items()
        if (each := definitions.classes[node.type].inputs.get(name) if node.type in definitions.classes else None)
        and isinstance(value, str)
        and value in each.options
    ]
    if not able:
        return None
    node, name = chance.choice(able)
    params = {**node.params, name: misspelt(node.params[name], chance)}
    return replace(graph, nodes=[replace(each, params=params) if each is node else each for each in graph.nodes])


def wrong_variable(graph: NodeGraph, chance: random.Random, definitions: Definitions) -> NodeGraph | None:
    """A variable that is misspelt where it is used."""
    if not graph.edges:
        return None
    edge = chance.choice(graph.edges)
    name = Draft(graph, (), definitions).variables[edge.source]
    written = misspelt(name[edge.port], chance) if edge.port < len(name) else ""
    if not written.isidentifier() or any(
        written in names for names in Draft(graph, (), definitions).variables.values()
    ):
        return None
    slip = replace(edge, source=written, port=0, extra={"comfyui": {"undefined": written}})
    return replace(graph, edges=[slip if each is edge else each for each in graph.edges])


SLIPS: tuple[Slip, ...] = (wrong_class, wrong_value, wrong_link, wrong_option, no_value, no_link, wrong_variable)


def workflows(data: Path, definitions: Definitions) -> Iterator[NodeGraph]:
    """The official workflows, as a server runs them, read from their code."""
    for path in sorted((data / "comfyui/workflows").iterdir()):
        graph = executable(load(path.read_bytes(), path.stem), definitions)
        yield replace(read_answer(dump_code(graph, definitions), definitions, NOTHING).graph, name=path.stem)


def meaning(graph: NodeGraph) -> object:
    """Return the parts of a workflow that affect a run."""
    nodes = {spec.id: (spec.type, spec.params) for spec in graph.nodes}
    return nodes, sorted((edge.source, edge.port, edge.target, edge.input) for edge in graph.edges)


def main() -> None:
    """Print a line for each kind of slip."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--each", type=int, default=5, help="the number of slips of each kind per workflow")
    options = parser.parse_args()
    definitions = read_definitions((options.data / "comfyui/object_info.json").read_text(encoding="utf-8"))
    graphs = list(workflows(options.data, definitions))
    print(f"{len(graphs)} workflows, {sum(len(each.nodes) for each in graphs)} nodes")
    kept = [mend(graph, definitions)[0] for graph in graphs]
    changed = [each.name for each, left in zip(graphs, kept, strict=True) if meaning(each) != meaning(left)]
    print(f"changed by rules without a slip: {len(changed)} ({', '.join(changed) or 'none'})")
    wanted = [{spec.type for spec in each.nodes} & definitions.classes.keys() for each in graphs]
    told = [{*offered(each.name.replace("_", " "), definitions)} for each in graphs]
    found = sum(len(one & other) for one, other in zip(wanted, told, strict=True))
    whole = sum(one <= other for one, other in zip(wanted, told, strict=True))
    print(f"classes offered for the file's name: {found} of {sum(map(len, wanted))}; all of {whole} workflows")
    print(f"{'slip':15} {'seeded':>6} {'seen':>6} {'clean':>6} {'exact':>6}   seconds")
    for slip in SLIPS:
        chance, counts, began = random.Random(options.seed), [0, 0, 0, 0], perf_counter()  # noqa: S311 - no secrets
        for graph in graphs:
            own = len(findings(Draft(graph, (), definitions)))
            for _ in range(options.each):
                broken = slip(graph, chance, definitions)
                if broken is None:
                    continue
                draft = read_answer(dump_code(broken, definitions), definitions, NOTHING)
                mended, _ = mend(draft.graph, definitions)
                counts[0] += 1
                counts[1] += bool(draft.repairs) or set(check(draft.graph, definitions)) != set(
                    check(graph, definitions)
                )
                counts[2] += len(findings(Draft(mended, draft.unread, definitions))) <= own
                counts[3] += meaning(mended) == meaning(graph)
        print(f"{slip.__name__:15} {' '.join(f'{each:6}' for each in counts)}   {perf_counter() - began:7.1f}")


if __name__ == "__main__":
    main()
