"""`operad generate`: workflows from instructions, in one call or in a conversation."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple, cast

import typer
from rich.console import Console

from operad.cli.ask import Lines
from operad.cli.follow import follow, prompt, run_to_end, say
from operad.cli.formats import (
    STDOUT,
    ObjectInfo,
    picture_kind,
    refuse_unwritable,
    target_format,
    write_file,
)
from operad.cli.generate_events import DesignListener
from operad.cli.generate_expert import EXPERT, generate_expert, use_limits
from operad.cli.generate_run import run_design, services_for
from operad.cli.options import BaseUrl, ModelName, PricesFile, named_values
from operad.cli.process import put
from operad.cli.trust_store import Trusted, trusting
from operad.configs.expert_generation import EXPERT_DESIGNER
from operad.configs.flow import is_configuration, read_file, read_workflow
from operad.configs.generation import DESIGNER, NOTHING, Design, Designer
from operad.configs.issues import issue_line, placed
from operad.configs.services import services_of_environment
from operad.flows.formats.format import Format
from operad.flows.formats.outline import outline
from operad.flows.formats.table import find_format, formats
from operad.flows.generation.asking import WorkflowPlan
from operad.flows.generation.offer import offer_of
from operad.flows.node_graph import NodeGraph, draw
from operad.operators.integration import named
from operad.runtime.values.errors import BudgetError, InputError, Issue, OperadError, OperatorError, did_you_mean
from operad.runtime.values.message import WorkflowMessage, WorkflowStatus
from operad.runtime.values.text import printable

EXIT_UNFINISHED = 1

ARCHIVES = ("coze",)
"""Formats whose files are archives."""

RAISE_MAX_TOKENS = "raise max_tokens"
"""Advice of the error of an answer that was cut off."""

BEGINS = "What is the workflow given, what does it do, what does it output? (an empty line ends)"
CHANGES = "What should change? (undo reverts the last step; an empty line ends)"


def generate(
    instruction: Annotated[
        str | None,
        typer.Argument(metavar="INSTRUCTION", help="Description of the workflow: its inputs, steps and outputs."),
    ] = None,
    output: Annotated[
        str | None, typer.Option("-o", "--output", metavar="FILE", help="The file to write; by default stdout.")
    ] = None,
    base: Annotated[
        str | None, typer.Option("--continue", metavar="FILE", help="A workflow that the instruction changes.")
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="FORMAT",
            help="The format to write; by default that of the output's name, or operad. expert: a YAML file of an expert.",
        ),
    ] = None,
    run: Annotated[
        list[str] | None,
        typer.Option("--run", metavar="NAME=VALUE", help="Then run the workflow with this input. Repeatable."),
    ] = None,
    picture: Annotated[
        str | None,
        typer.Option(
            "--picture",
            "--plot",
            metavar="FILE",
            help="Draw the workflow, with new and changed nodes marked: .svg, .png or .md.",
        ),
    ] = None,
    store: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Folder of workflows; the one with the most similar instruction is used as the example."
        ),
    ] = None,
    designer: Annotated[str, typer.Option(help="The configuration of the expert that designs.")] = DESIGNER,
    model: ModelName = None,
    base_url: BaseUrl = None,
    max_tokens: Annotated[
        int | None, typer.Option("--max-tokens", min=1, help="Maximum number of tokens of an answer of the model.")
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option("--timeout", min=0.1, help="Maximum time without data from the endpoint, in seconds."),
    ] = None,
    prices: PricesFile = None,
    object_info: ObjectInfo = None,
    services_file: Annotated[
        Path | None,
        typer.Option(
            "--services",
            metavar="FILE",
            help="YAML file of external services: its tools, models and knowledge may be used by the workflow.",
        ),
    ] = None,
    plan_first: Annotated[
        bool,
        typer.Option(
            "--plan",
            help="Show the plan in words, with questions and estimated costs; build it only if a person at the terminal "
            "agrees.",
        ),
    ] = False,
    review: Annotated[
        bool, typer.Option("--review", help="Have the model review the workflow, in a further call.")
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Print the parts of each stage's prompt and their sizes in tokens.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print changes, findings and notes as JSON.")] = False,
    trust: Trusted = False,
) -> None:
    """Generate a workflow of typed nodes from an instruction, or change one; with --to expert, a YAML file of an expert.

    With -o, stdout shows the changes, one a line, otherwise the workflow. Findings that are left go to stderr. Exit
    status: 0 if none are left; 1 if some are, and the best attempt is written; 2 bad input or an error. Formats that can
    store the instruction keep it in the file, for --continue.
    """
    lines = Lines.of_stdin()
    if instruction is None and not lines.typed:
        raise InputError('say what the workflow should do: operad generate "…"; at a terminal it asks')
    of_types = {"--run": run, "--store": store, "--services": services_file, "--review": review, "--plan": plan_first}
    limits = {"max_tokens": max_tokens, "timeout": timeout}
    file = output if output != STDOUT else None
    if _is_expert(to, base):
        of_workflows = {**of_types, "--services": None, "--picture": picture, "--object-info": object_info}
        config = EXPERT_DESIGNER if designer == DESIGNER else designer
        done = generate_expert(
            instruction, file, base, services_file, _given(of_workflows), lines, explain=explain, as_json=as_json,
            trust=trust, limits=limits, config=config, model_name=model, base_url=base_url,
        )  # fmt: skip
        raise typer.Exit(0 if done else EXIT_UNFINISHED)
    given = named_values("--run", "NAME", run)
    known = formats(object_info)
    found, graph = _read_base(base, known) if base else (None, NOTHING)
    wanted = _output_format(output, to, found, known)
    _check_targets(file, base, picture, wanted, known, as_json=as_json)
    if wanted.designer or (found and found.designer):
        _check_foreign(found, wanted, _given(of_types))
        make: Callable[..., Designer] = partial(named(wanted.designer), object_info, config=designer)
        services = services_of_environment()
    else:
        services = services_for(services_file, trust)
        make = partial(
            Designer, config=designer, store=store, review=review, offer=run_to_end(offer_of(services, wanted.name))
        )
    expert = trusting(lambda trusted: make(model_name=model, base_url=base_url, trust=trusted), trust)
    use_limits(expert.expert, limits)
    listener = DesignListener()
    expert.expert.workflow.add_listener(listener.hear)
    output_file = _OutputFile(file, wanted, read_file(base) if base and found is wanted else None)
    unchanged_message = _unchanged_message(file, base)
    try:
        if plan_first and instruction is not None and not lines.typed:
            expert.planner.workflow.add_listener(listener.hear)
            planned = _show_plan(expert, instruction, graph, lines, listener if explain else None, as_json=as_json)
            raise typer.Exit(0 if planned else EXIT_UNFINISHED)
        design = _designed(expert, instruction, graph, lines, listener, output_file, plan_first=plan_first)
    except (BudgetError, OperatorError) as error:
        raise OperadError(f"{error}\n  {unchanged_message}") from error
    if design is None:
        say(Console(stderr=True), unchanged_message)
        raise typer.Exit(EXIT_UNFINISHED)
    _print_result(design, wanted, output_file, listener, explain=explain, written=file, as_json=as_json)
    if design.made and picture:
        write_file(picture, draw(design.graph, picture_kind(picture, "--picture"), design.changes.status))
    if not design.accepted:
        state_text = f"{file or 'stdout'} holds the best attempt" if design.made else unchanged_message
        say(Console(stderr=True), f"not finished; {state_text}{'; it was not run' if run else ''}")
        raise typer.Exit(EXIT_UNFINISHED)
    done = WorkflowStatus.SUCCESS
    status = run_design(design.graph, given, model, base_url, lines, services, trust=trust) if run else done
    raise typer.Exit(0 if status is WorkflowStatus.SUCCESS else EXIT_UNFINISHED)


def _is_expert(to: str | None, base: str | None) -> bool:
    """Return whether a file of an expert is to be made or changed."""
    configures = base is not None and is_configuration(read_file(base))
    if to == EXPERT and base is not None and not configures:
        raise InputError(f"--continue {base}: does not configure an expert, so --to expert cannot change it")
    return to == EXPERT or (to is None and configures)


def _given(options: Mapping[str, Any]) -> list[str]:
    """Return the names of the options that were given."""
    return [name for name, value in options.items() if value]


class _OutputFile:
    """Output file of the generated workflow, rewritten after each step.

    Args:
        path: Path of the file; None to write no file.
        old: Content of the existing workflow's file, if it has the same format; otherwise None.
    """

    def __init__(self, path: str | None, wanted: Format, old: bytes | None) -> None:
        self.path = path
        self._wanted = wanted
        self._base_data = old
        self._original = Path(path).read_bytes() if path and Path(path).is_file() else None

    def write(self, design: Design) -> None:
        """Write the workflow of a design; if it has none, leave the file unchanged."""
        if self.path and design.made:
            write_file(self.path, self.data(design.graph))

    def data(self, graph: NodeGraph) -> bytes:
        """Return the content of the file; text of unchanged parts is taken from the existing file.

        A new workflow without a name is named after its file, so that a server can offer several.
        """
        if self.path and self._base_data is None and graph.name == NOTHING.name:
            graph = replace(graph, name=Path(self.path).name.partition(".")[0])
        return self._wanted.dump_keeping_text(graph, self._base_data)

    def restore(self) -> None:
        """Restore the original content of the file, or delete it if it did not exist."""
        if self.path and self._original is not None:
            write_file(self.path, self._original)
        elif self.path and Path(self.path).is_file():
            Path(self.path).unlink()


def _designed(
    expert: Designer,
    instruction: str | None,
    base: NodeGraph,
    lines: Lines,
    listener: DesignListener,
    output_file: _OutputFile,
    *,
    plan_first: bool,
) -> Design | None:
    """Return the design of an instruction, written to its file, or of a conversation; None if its plan was refused."""
    if plan_first:
        expert.planner.workflow.add_listener(listener.hear)
    if instruction is None:
        return _converse(expert, base, lines, listener, output_file, plan_first=plan_first)
    design = _design_once(expert, instruction, base, lines, listener, output_file, plan_first=plan_first)
    if design is not None:
        output_file.write(design)
    return design


def _design_once(
    designer: Designer,
    instruction: str,
    base: NodeGraph,
    lines: Lines,
    listener: DesignListener,
    output_file: _OutputFile,
    *,
    plan_first: bool,
) -> Design | None:
    """Generate or change a workflow; with `plan_first`, only if a person agrees to its plan, otherwise return None."""
    if plan_first:
        if (agreed := _agreed_plan(designer, instruction, base, lines)) is None:
            return None
        job = designer.job_with_plan(agreed.instruction, base, agreed.plan)
    else:
        job = designer.job(instruction, base)

    async def work() -> WorkflowMessage:
        try:
            return await follow(designer.expert, job, [], {}, None, lines, brief=True)
        except asyncio.CancelledError:
            if listener.drafted is not None and listener.drafted.job_id == job.id and not base.nodes:
                output_file.write(designer.result(listener.drafted, job, base))  # no existing workflow is overwritten
            raise

    try:
        message = run_to_end(work())
    except (BudgetError, OperatorError) as error:
        return designer.best_so_far(error, job, base)
    return designer.result(message, job, base)


def _converse(
    designer: Designer,
    base: NodeGraph,
    lines: Lines,
    listener: DesignListener,
    output_file: _OutputFile,
    *,
    plan_first: bool,
) -> Design:
    """Change a workflow by the instructions of a conversation, until an empty line; return the final design.

    Each change is shown, and `undo` takes the last one back.
    """
    console = Console(stderr=True)
    designs: list[Design] = []
    if base.nodes:
        _print_outline(base, {}, console)
    while True:
        current = designs[-1].graph if designs else base
        say(console, CHANGES if current.nodes else BEGINS)
        prompt(console, "> ")
        instruction = (run_to_end(lines.next()) or "").strip()
        if not instruction:
            break
        if instruction.lower() == "undo":
            _undo(designs, output_file, console)
            continue
        try:
            design = _design_once(designer, instruction, current, lines, listener, output_file, plan_first=plan_first)
        except (BudgetError, OperatorError) as error:
            if not designs:
                raise
            say(console, f"operad: {error}")
            say(console, "nothing was changed; ask again, or end")
            continue
        if design is not None:
            _print_design(design, listener, console)
        if design is not None and design.made:
            designs.append(design)
            output_file.write(design)
            say(console, f"written: {output_file.path}" if output_file.path else "kept; it is written at the end")
        else:
            say(console, "nothing was made" if not current.nodes else "nothing was changed")
    if not designs:
        raise InputError("no instruction was given, so nothing was made" if not base.nodes else "nothing was changed")
    return Design(designs[-1].graph, base, designs[-1].message)


def _undo(designs: list[Design], output_file: _OutputFile, console: Console) -> None:
    if not designs:
        say(console, "there is nothing to undo")
        return
    designs.pop()
    if designs:
        output_file.write(designs[-1])
    else:
        output_file.restore()
    remaining = "1 step is" if len(designs) == 1 else f"{len(designs) or 'no'} steps are"
    say(console, f"undone; {remaining} left")


def _print_design(design: Design, listener: DesignListener, console: Console) -> None:
    if design.made:
        _print_outline(design.graph, design.changes.status, console)
    for line in str(design.changes).splitlines():
        say(console, line)
    _print_remarks(design, listener, console)
    if not design.accepted:
        _print_findings(design, console)


def _print_remarks(design: Design, listener: DesignListener, console: Console) -> None:
    """Print remarks on a design: automatic repairs, corrected findings, notes, warnings, and unused parts."""
    remarks = {
        "mended": design.repairs,
        "found and corrected": listener.corrected(design),
        "note": design.notes,
        "still left out": design.still_left_out,
        "neither input nor output": design.neither,
        "no longer an input or output": design.gone,
        "dropped note": design.dropped_notes,
        "warning": design.warnings,
        "not tried": design.not_tried,
        "unread": design.unread if design.made else (),
    }
    for kind, lines in remarks.items():
        for line in lines:
            say(console, f"{kind}: {line}")


def _print_outline(graph: NodeGraph, status: Mapping[str, str], console: Console) -> None:
    """Print the outline of a workflow, one line per node; new nodes are marked +, changed ones ~."""
    for line in outline(graph, status):
        say(console, line)


def _print_findings(design: Design, console: Console) -> None:
    for what in design.left_out:
        say(console, f"left out: {what}")
    others = [] if design.left_out else [*design.message.evaluation.splitlines(), "no workflow was written"]
    for finding in design.findings or others[:1]:
        say(console, f"left: {finding.replace(RAISE_MAX_TOKENS, f'{RAISE_MAX_TOKENS} (--max-tokens)')}")


def _unchanged_message(file: str | None, base: str | None) -> str:
    """Return the message for a run that generated nothing: which file is unchanged."""
    existing = file if file and Path(file).exists() else base
    return f"nothing was made; {existing} is as it was" if existing else "nothing was made, and nothing written"


def _print_result(
    design: Design,
    wanted: Format,
    output_file: _OutputFile,
    listener: DesignListener,
    *,
    explain: bool,
    written: str | None,
    as_json: bool,
) -> None:
    """Print a design: the workflow to stdout, or the changes if a file holds it; everything else to stderr."""
    console = Console(stderr=True)
    lost = wanted.losses(design.graph) if design.made else []
    if as_json:
        text = output_file.data(design.graph).decode() if design.made and not written else None
        put(
            json.dumps(
                _as_json(design, wanted, lost, listener if explain else None, text), indent=2, ensure_ascii=False
            )
        )
    elif written:
        _print_changes(design, console)
    elif design.made:
        write_file(STDOUT, output_file.data(design.graph))
    for line in listener.lines() if explain and not as_json else ():
        say(console, line)
    _print_issues(lost, written, console)
    if design.accepted:
        _print_issues(wanted.check(design.graph), written, console, "issues that were there before, and remain:")
    for needed in cast("Sequence[Any]", design.message.outputs.get("files", ())):
        say(console, f"needed: {needed}")
    if not as_json:
        _print_remarks(design, listener, console)
    if not design.accepted:
        _print_findings(design, console)


def _print_issues(issues: Sequence[Issue], written: str | None, console: Console, head: str = "") -> None:
    if head and issues:
        say(console, f"{head} {len(issues)}")
    for issue in issues:
        say(console, issue_line(placed(issue, written or ""), written or ""))


def _print_changes(design: Design, console: Console) -> None:
    """Print the changes to stdout; at a terminal, the picture before them."""
    if console.is_terminal and design.made:
        _print_outline(design.graph, design.changes.status, console)
    for line in str(design.changes).splitlines():
        print(printable(line))


def _as_json(
    design: Design, wanted: Format, lost: Sequence[Issue], listener: DesignListener | None, text: str | None
) -> dict[str, Any]:
    return {
        "accepted": design.accepted,
        "status": design.message.status.value,
        "findings": list(design.findings),
        "left_out": design.left_out,
        "still_left_out": design.still_left_out,
        "notes": design.notes,
        "neither": design.neither,
        "gone": design.gone,
        "dropped_notes": design.dropped_notes,
        "warnings": design.warnings,
        "repairs": list(design.repairs),
        "not_tried": design.not_tried,
        "samples": dict(design.samples),
        "unread": design.unread if design.made else [],
        "changes": design.changes.as_dict(),
        "format": wanted.name,
        "losses": [{"where": loss.where, "message": loss.message} for loss in lost],
        "tokens": design.message.usage.tokens,
        **({"explained": list(listener.lines())} if listener else {}),
        **({"workflow": text} if text is not None else {}),
    }


def _read_base(path: str, known: Mapping[str, Format]) -> tuple[Format, NodeGraph]:
    """Return the format and the workflow of the file to change.

    Raises:
        InputError: The file does not exist, or its nodes are not of operad's types.
        InvalidError: The file cannot be read; every issue is listed.
    """
    data = read_file(path)
    if is_configuration(data):
        raise InputError(f"{path}: configures experts, which can only be changed as such; leave out --to")
    found, graph = read_workflow(path, data, known)
    if not (found.runs or found.designer):
        raise InputError(f"{path}: is of the format {found.name}, whose nodes are not of operad's types")
    return found, graph


def _output_format(out: str | None, to: str | None, found: Format | None, known: Mapping[str, Format]) -> Format:
    """Return the format of the output."""
    default = found or known["operad"]
    if out in (None, STDOUT) and to is None:
        return default
    if to is not None and to not in known:
        names = [*known, EXPERT]
        raise InputError(f"--to {to}: there is no such format{did_you_mean(to, names)}; there are: {', '.join(names)}")
    wanted = target_format(out or STDOUT, to, default, known)
    if not (wanted.runs or wanted.designer):
        possible = ", ".join(name for name, format_ in known.items() if format_.runs or format_.designer)
        raise InputError(
            f"{out or to}: workflows are generated in formats whose nodes run: {possible}; see operad convert"
        )
    return wanted


def _check_foreign(found: Format | None, wanted: Format, used: Sequence[str]) -> None:
    """Check the input and the options of a workflow whose nodes are not of operad's types."""
    if found is not None and found.designer != wanted.designer:
        raise InputError(
            f"--continue: {found.name} and {wanted.name} have different node types; choose a format with the same ones"
        )
    if used:
        raise InputError(f"{', '.join(used)}: is for typed nodes, which workflows of {wanted.name} do not have")


def _check_targets(
    file: str | None,
    base: str | None,
    picture: str | None,
    wanted: Format,
    known: Mapping[str, Format],
    *,
    as_json: bool,
) -> None:
    """Check that the outputs can be written as requested, and replace no other file.

    Args:
        file: The file of the workflow; None for stdout.
        base: The workflow that is changed, if there is one.
        picture: The file of the picture, if there is one.
        as_json: True if the workflow without a file is a part of JSON.
    """
    if as_json and not file and wanted.name in ARCHIVES:
        raise InputError(f"--json cannot contain {wanted.name}, which is an archive; use -o FILE")
    if picture:
        picture_kind(picture, "--picture")
    for path in filter(None, (file, picture)):
        refuse_unwritable(path)
    if file:
        _refuse_overwriting(file, base, known)


def _refuse_overwriting(file: str, base: str | None, known: Mapping[str, Format]) -> None:
    """Raise InputError if the output is a file of experts, or, without --continue, an existing workflow."""
    if not Path(file).expanduser().is_file():
        return
    data = read_file(file)
    if is_configuration(data):
        raise InputError(f"-o {file}: configures experts, and was not changed; name another file")
    if base is None and find_format(data, known) is not None:
        raise InputError(f"-o {file}: holds a workflow; change it with --continue {file}, or name another file")


_AGREE = "Build this? (Y, n, or what to change)"

_AS_PLANNED = "as planned"

_HINT = "nothing was built: without --plan it is; put answers and changes into the instruction"


class Agreed(NamedTuple):
    """Request with the plan that a person agreed to."""

    instruction: str
    plan: WorkflowPlan


def _show_plan(
    designer: Designer,
    instruction: str,
    base: NodeGraph,
    lines: Lines,
    explained: DesignListener | None,
    *,
    as_json: bool,
) -> bool:
    """Plan a request, print the plan with its questions to stdout, and return whether there is something to build."""
    plan = _plan(designer, instruction, base, None, lines)
    if as_json:
        put(json.dumps(plan.as_json(), indent=2, ensure_ascii=False))
    else:
        for line in _lines(plan):
            print(printable(line))
    console = Console(stderr=True)
    for line in explained.lines() if explained else ():
        say(console, line)
    say(console, _HINT)
    return bool(plan.steps)


def _agreed_plan(designer: Designer, instruction: str, base: NodeGraph, lines: Lines) -> Agreed | None:
    """Show plans of a request at the terminal, and ask their questions, until the person agrees; None if not.

    A plan that was answered otherwise than it assumes, and a change, are planned again, from the plan so far.
    """
    console, seen = Console(stderr=True), None
    while True:
        plan = _plan(designer, instruction, base, seen, lines)
        for line in plan.lines:
            say(console, line)
        if not plan.steps:
            return None
        answers: list[str] = []
        for question in plan.questions:
            say(console, f"{question.text} (an empty line for: {question.default or _AS_PLANNED})")
            if (answer := _typed(lines, console)) is None:
                return None
            answers.append(answer)
        seen = plan.answered(*answers)
        if seen.decided_otherwise:
            instruction = "\n".join([instruction, *seen.decisions])
            continue
        say(console, _AGREE)
        answer = _typed(lines, console)
        if answer is None or answer.lower() in ("n", "no"):
            return None
        if answer.lower() in ("", "y", "yes"):
            return Agreed(instruction, seen)
        instruction = "\n".join([instruction, *seen.decisions, answer])


def _plan(
    designer: Designer, instruction: str, base: NodeGraph, seen: WorkflowPlan | None, lines: Lines
) -> WorkflowPlan:
    job = designer.job_of_plan(instruction, base, seen)
    message = run_to_end(follow(designer.planner, job, [], {}, None, lines, brief=True))
    return designer.plan_in(message, job, base)


def _lines(plan: WorkflowPlan) -> list[str]:
    questions = (f"question: {text} (by default: {default or _AS_PLANNED})" for text, default in plan.questions)
    return [*plan.lines, *questions]


def _typed(lines: Lines, console: Console) -> str | None:
    prompt(console, "> ")
    if (line := run_to_end(lines.next())) is None:
        say(console, "")
        return None
    return line.strip()
