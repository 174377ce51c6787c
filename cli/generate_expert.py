"""`operad generate --to expert`: files of experts from instructions."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from difflib import unified_diff
from pathlib import Path
from typing import Any

from rich.console import Console

from operad.cli.ask import Lines
from operad.cli.follow import follow, run_to_end, say
from operad.cli.formats import STDOUT, refuse_unwritable, write_file
from operad.cli.generate_events import DesignListener
from operad.cli.generate_run import services_for
from operad.cli.process import put
from operad.cli.trust_store import trusting
from operad.configs.expert_generation import ExpertDesign, ExpertDesigner, expert_offer
from operad.configs.flow import is_configuration, read_file
from operad.flows.formats.table import find_format
from operad.runtime.agents.agent import Expert
from operad.runtime.models.embedded import EmbeddedModel
from operad.runtime.reasoning.reasoner import MonoModelReasoner
from operad.runtime.values.errors import InputError
from operad.runtime.values.text import printable

EXPERT = "expert"
"""Name of the kind of file, for ``--to``."""


def generate_expert(
    instruction: str | None,
    output: str | None,
    base: str | None,
    services_file: Path | None,
    used: Collection[str],
    lines: Lines,
    *,
    explain: bool,
    as_json: bool,
    trust: bool,
    limits: Mapping[str, Any],
    **options: Any,
) -> bool:
    """Generate the file of an expert, or change one, and print the result; return True if nothing is left to correct.

    Args:
        output: The file to write; None for stdout.
        services_file: The file of services whose tools, models and knowledge the expert may use.
        used: Options that were given and are for workflows only.
        lines: Lines that a person types.
        explain: True to print the parts of the prompt.
        trust: True if files may do what they can.
        limits: Limits of the model's calls; see `use_limits`.
        options: Further arguments of `ExpertDesigner`.

    Raises:
        InputError: An option or a file does not fit.
    """
    file = _checked_file(output, base, services_file, used)
    if instruction is None:
        raise InputError('say what the expert should do: operad generate --to expert "…"')
    before = read_file(base).decode() if base else ""
    offer = run_to_end(expert_offer(services_for(services_file, trust), services_file))
    designer = trusting(lambda trusted: ExpertDesigner(offer=offer, file=file, trust=trusted, **options), trust)
    use_limits(designer.expert, limits)
    listener = DesignListener()
    designer.expert.workflow.add_listener(listener.hear)

    async def work() -> ExpertDesign:
        job = await designer.job(instruction, before)
        return designer.result(await follow(designer.expert, job, [], {}, None, lines, brief=True), before)

    design = run_to_end(work())
    if output and design.text:
        write_file(output, design.text.encode())
    explained = list(listener.lines())[:-1] if explain else []
    if as_json:
        put(json.dumps(_as_json(design, explained, written=bool(output)), indent=2, ensure_ascii=False))
    elif design.text and output:
        print("\n".join(map(printable, _changes(design))))
    elif design.text:
        write_file(STDOUT, design.text.encode())
    if not as_json:
        _print_remarks(design, explained, base)
    return design.accepted


def use_limits(expert: Expert, limits: Mapping[str, Any]) -> None:
    """Set the limits of the model of an expert that designs.

    Args:
        limits: Fields of `Model` with their values; None leaves a field as it is.

    Raises:
        InputError: The model would be the embedded one, which cannot plan workflows; or the expert has two models.
    """
    given = {name: value for name, value in limits.items() if value is not None}
    reasoner = expert.reasoner
    if not isinstance(reasoner, MonoModelReasoner):
        if given:
            raise InputError(f"{', '.join(given)}: the designer has two models; set it in the file of the designer")
        return
    if given:
        expert.reasoner = reasoner.with_model(reasoner.model.model_copy(update=given))
    if reasoner.model == EmbeddedModel():
        raise InputError(
            "the embedded model is too small to plan workflows: set OPENAI_API_KEY, or OPENAI_BASE_URL and OPERAD_MODEL, "
            "or use --base-url and --model"
        )


def _checked_file(output: str | None, base: str | None, services: Path | None, used: Collection[str]) -> str:
    """Return the path of the file, beside which its modules lie."""
    if used:
        raise InputError(f"{', '.join(used)}: is for workflows, not for experts")
    beside = next((str(path) for path in (services, base) if path), None)
    if output and beside and Path(beside).resolve().parent != Path(output).resolve().parent:
        raise InputError(f"-o {output}: must be in the folder of {beside}, whose modules and paths are found there")
    if output:
        refuse_unwritable(output)
        _refuse_overwriting(output, base)
    return output or base or str(Path(beside or "").with_name("expert.yaml") if beside else "expert.yaml")


def _refuse_overwriting(output: str, base: str | None) -> None:
    """Raise InputError if the output is an existing file of experts or workflow, except the one that is changed."""
    if not Path(output).is_file() or (base and Path(base).resolve() == Path(output).resolve()):
        return
    data = read_file(output)
    if is_configuration(data):
        raise InputError(f"-o {output}: configures experts; change it with --continue {output}, or name another file")
    if find_format(data) is not None:
        raise InputError(f"-o {output}: holds a workflow; name another file")


def _changes(design: ExpertDesign) -> list[str]:
    """Return the changed lines of the file, with + or - before each."""
    lines = unified_diff(design.before.splitlines(), design.text.splitlines(), n=0, lineterm="")
    return [line for line in list(lines)[2:] if not line.startswith("@@")]


def _print_remarks(design: ExpertDesign, explained: Collection[str], base: str | None) -> None:
    """Print what there is to say on a design to stderr."""
    console = Console(stderr=True)
    for line in (
        *explained,
        *(f"found and corrected: {finding}" for finding in design.corrected),
        *(f"note: {note}" for note in design.notes),
        *(f"neither input nor output: {name}" for name in design.neither),
        *(f"no longer an input or output: {name}" for name in design.gone),
        *(f"left out: {what}" for what in design.left_out),
        *(f"left: {finding}" for finding in design.findings),
    ):
        say(console, line)
    if not design.accepted:
        kept = f"{base} is as it was" if base else "nothing was written"
        say(console, f"not finished; {'this is the best attempt' if design.text else kept}")


def _as_json(design: ExpertDesign, explained: Collection[str], *, written: bool) -> dict[str, Any]:
    return {
        "accepted": design.accepted,
        "status": design.message.status.value,
        "findings": design.findings,
        "notes": design.notes,
        "left_out": design.left_out,
        "neither": design.neither,
        "gone": design.gone,
        "changes": _changes(design) if design.text else [],
        "format": EXPERT,
        "tokens": design.message.usage.tokens,
        **({"explained": list(explained)} if explained else {}),
        **({"expert": design.text} if design.text and not written else {}),
    }
