"""Generation of ComfyUI workflows from instructions, with the node classes of a server."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from operad.configs.capabilities import Trust
from operad.configs.generation import DESIGNER, NOTHING, Designer
from operad.flows.generation.prompts import CHARACTERS_A_TOKEN
from operad.flows.generation.stage import ROUNDS
from operad.flows.node_graph import NodeGraph, NodeSpec
from operad.flows.repair.containers import rename
from operad.integrations.comfyui.definitions import definitions_from
from operad.integrations.comfyui.formats import Definitions, dump_code, restored
from operad.integrations.comfyui.generation.designer import CODE, KnowsClasses
from operad.integrations.comfyui.generation.drafts import MAX_LINES, read_lines
from operad.integrations.comfyui.generation.prompts import CODE_TOKENS
from operad.runtime.models.model import Model
from operad.runtime.values.errors import InputError
from operad.runtime.values.keys_in_text import name_keys
from operad.runtime.values.message import Job, WorkflowMessage

# Conversion of an existing ComfyUI workflow to code for a model, and back; unchanged nodes keep their layout.

NOTES = ("Note", "MarkdownNote")
"""Classes of notes beside a workflow, which models are not shown and which are kept."""


def code_of(graph: NodeGraph, definitions: Definitions) -> str:
    """Return the code of an existing workflow, without notes.

    Args:
        graph: The workflow, in any of ComfyUI's forms.
        definitions: The classes of the server, which name the values that ComfyUI's page saves as lists.
    """
    return dump_code(replace(graph, nodes=[spec for spec in graph.nodes if spec.type not in NOTES]), definitions)


def continued(code: str, before: str, base: NodeGraph) -> NodeGraph:
    """Return the workflow of changed code; nodes that are equal in both codes stay the same objects.

    Args:
        code: The changed code.
        before: The code of the base, from `code_of`.
        base: The existing workflow; without nodes if there is none.
    """
    before_graph = read_lines(before, Definitions(), NodeGraph(name=base.name)).graph
    changed = read_lines(code, Definitions(), before_graph).graph
    hidden = [spec for spec in base.nodes if spec.id not in before_graph.by_id]
    taken = {*changed.by_id, *(spec.id for spec in hidden)}
    free = (number for number in map(str, count(1)) if number not in taken)
    changed = rename(changed, {spec.id: next(free) for spec in hidden if spec.id in changed.by_id})
    whole = restored(replace(changed, nodes=[*changed.nodes, *hidden]), base)
    kept = {spec.id for spec in hidden} | {spec.id for spec in changed.nodes if _is_same(spec, before_graph)}
    return replace(
        whole, nodes=[base.by_id[spec.id] if spec.id in kept else spec for spec in whole.nodes], name=base.name
    )


def _is_same(spec: NodeSpec, before: NodeGraph) -> bool:
    old = before.by_id.get(spec.id)
    return old is not None and (spec.type, spec.params) == (old.type, old.params)


COMFYUI_DESIGNER = Path(__file__).parent / "designer.yaml"
"""Configuration of the designer."""


class ComfyDesigner(Designer):
    """Generator of ComfyUI workflows, which also changes them by instructions; its methods are those of `Designer`.

        definitions = read_definitions(Path("object_info.json").read_text())
        design = ComfyDesigner(definitions).design("A picture of a lighthouse at dusk, 1024 pixels wide and high.")
        Path("lighthouse.json").write_bytes(dump_api(design.graph))

    Args:
        definitions: Node classes of the ComfyUI server.
        model: The model; None for that of the configuration or the environment.
        config: The configuration of the expert: a YAML file, or the name of one that comes with operad.
        model_name: The model's name at its endpoint, instead of the configuration's.
        base_url: An endpoint, instead of the configuration's.
        trust: True if the configuration may do what it can; see `load`.

    Raises:
        InputError: The definitions are empty, or the configuration does not exist.
        InvalidError: The configuration is not valid; every issue is listed.
    """

    def __init__(
        self,
        definitions: Definitions,
        model: Model | None = None,
        *,
        config: str | Path = COMFYUI_DESIGNER,
        model_name: str | None = None,
        base_url: str | None = None,
        trust: Trust = False,
    ) -> None:
        if not definitions:
            raise InputError("the definitions hold no class: give what a ComfyUI server answers at /object_info")
        super().__init__(model, config=config, model_name=model_name, base_url=base_url, trust=trust)
        self._definitions = definitions
        graph = self.expert.workflow.graph()
        for operator in (*graph.operators.values(), *graph.evaluators):
            if isinstance(operator, KnowsClasses):
                operator.use(definitions)

    def job(self, instruction: str, base: NodeGraph = NOTHING) -> Job:
        """Return an instruction as a job of the expert.

        Args:
            instruction: The request.
            base: The existing workflow, in any of ComfyUI's forms.

        Raises:
            InputError: The instruction is empty, or the workflow is too long to be shown to a model.
        """
        job = super().job(instruction)
        if not base.nodes:
            return job
        code = code_of(base, self._definitions)
        if len(code) > CHARACTERS_A_TOKEN * CODE_TOKENS or len(base.nodes) > MAX_LINES:
            raise InputError(
                f"{base.name}: its code has {len(code):,} characters and {len(base.nodes):,} nodes; a model is shown "
                f"{CHARACTERS_A_TOKEN * CODE_TOKENS:,} and {MAX_LINES} at most: change a part of it"
            )
        return job.model_copy(
            update={"inputs": {**job.inputs, CODE: code, ROUNDS: [name_keys(each).text for each in base.instructions]}}
        )

    def graph_of(self, message: WorkflowMessage, job: Job, base: NodeGraph) -> NodeGraph | None:
        """Return the workflow in a message of the expert; None if it holds none."""
        code = message.outputs.get(CODE)
        return continued(code, str(job.inputs.get(CODE) or ""), base) if isinstance(code, str) else None


def designer(server: str | None, *, config: str = DESIGNER, **options: Any) -> ComfyDesigner:
    """Return the designer of a format, for `Format.designer`.

    Raises:
        InputError: There is no server.
    """
    if server is None:
        raise InputError(
            "workflows of ComfyUI need the node classes of a server; give --object-info: its address, or a file with what "
            "it answers at /object_info"
        )
    return ComfyDesigner(definitions_from(server), config=COMFYUI_DESIGNER if config == DESIGNER else config, **options)
