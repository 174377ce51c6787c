"""Generation of files of experts from instructions: a model writes a plan as JSON, from which code writes the YAML."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any

from operad.configs.capabilities import Trust
from operad.configs.expert_file import ExpertFile, Item, connected
from operad.configs.generation import DesignResult, notes_on_keys, reasons_in
from operad.configs.issues import issue_line, placed
from operad.configs.loader import load, preview_text
from operad.configs.reading import name_tools
from operad.configs.schema import READY, dotted_tool
from operad.flows.formats.shapes import each_of, fields_of, list_of
from operad.flows.formats.yaml_text import list_node, mapping_node, serialized, value_node
from operad.flows.generation.answers import ask_object, words_of
from operad.flows.generation.names import marked_names
from operad.flows.generation.plan import parsed, reasons_of, texts_of
from operad.flows.generation.prompts import Part, sizes
from operad.flows.generation.stage import SECRETS, Stage, task_of, texts_in
from operad.operators import Services
from operad.operators.instruction import Template
from operad.runtime.agents.agent import Expert
from operad.runtime.graph.call import OperatorCall
from operad.runtime.models.model import Model
from operad.runtime.reasoning.exchange import UnfitError, until_fit
from operad.runtime.tools.connections import connections
from operad.runtime.tools.tool import Tool
from operad.runtime.values.document import read_document
from operad.runtime.values.errors import (
    AnswerError,
    InputError,
    InvalidError,
    ModelError,
    describe,
    did_you_mean,
)
from operad.runtime.values.json_schema import Schema
from operad.runtime.values.keys_in_text import name_keys
from operad.runtime.values.message import Job, WorkflowMessage, WorkflowStatus
from operad.runtime.values.schema import AnswerSchema
from operad.runtime.values.sync import run_sync

EXPERT_DESIGNER = "expert_designer"
"""Name of the configuration, which comes with operad."""

MAX_TRIES = 3
"""Maximum number of questions to the model: the first, and two with the findings of the answer before."""

_TEXT: Schema = {"type": "string"}
_TEXTS: Schema = {"type": "array", "items": _TEXT}
_OBJECT: Schema = {"type": "object"}
_OPERATOR: Schema = {
    "type": "object",
    "properties": {
        **dict.fromkeys(("name", "instruction", "check", "map", "model"), _TEXT),
        **dict.fromkeys(("tools", "ports"), _TEXTS),
        "output": {},
    },
    "required": ["name"],
}
_DRAFT: Schema = {
    "type": "object",
    "properties": {
        "operators": {"type": "array", "items": _OPERATOR},
        "workflow": {"type": "array", "items": _TEXTS},
        **dict.fromkeys(("reasoning", "name", "description", "knowledge"), _TEXT),
        **dict.fromkeys(("criteria", "notes"), _TEXTS),
        **dict.fromkeys(("inputs", "budget", "unapproved", "left_out", "neither"), _OBJECT),
        "max_rounds": {"type": "integer"},
        "reasoner": {"enum": ["MONO", "DUAL"]},
    },
    "required": ["operators"],
}
_CHANGE: Schema = {"type": "object", "additionalProperties": True}
"""JSON Schema of a change, whose form stands in the rules, as that is shorter."""

_KEYS = (*_DRAFT["properties"], "replace", "drop", "approve", "outdated")

_LEFT_OUT = re.compile(r"^# left out: (.+?)[ \t\r]*$\n?", re.MULTILINE)
"""Line of a file on what was asked for and is not done."""

MAX_CHARACTERS = 40_000
"""Maximum length of a file that is shown to a model."""

_READY_TOOLS = {
    "web_reader": "web_reader(url): a web page as text",
    "web_search": "web_search(query, limit): a search of the web",
    "wikipedia": "wikipedia(query, language): beginnings of the best articles",
    "current_time": "current_time(zone): date and time",
}


@dataclass(frozen=True, slots=True)
class ExpertOffer:
    """Tools, models and knowledge that an expert may use.

    Attributes:
        tools: Definitions of tools by name, as files of experts have them.
        described: Descriptions of the tools by name.
        reading: Names of tools that change nothing.
        models: Definitions of models by name.
        knowledge: Definitions of knowledge bases by name.
        services: The `services` of tools that come with operad.
    """

    tools: Mapping[str, Any]
    described: Mapping[str, str]
    reading: Collection[str]
    models: Mapping[str, Any]
    knowledge: Mapping[str, Any]
    services: Mapping[str, Any]

    @property
    def shown(self) -> str:
        """The offer as a part of a prompt."""
        lines = [f"- {self.described.get(name, name)}" for name in self.tools]
        lines += [f"Models for `model` of an operator: {', '.join(self.models)}"] if self.models else []
        lines += [f"Knowledge bases, one for `knowledge`: {', '.join(self.knowledge)}"] if self.knowledge else []
        return "\n".join(lines)


async def expert_offer(services: Services, file: Path | None = None) -> ExpertOffer:
    """Return the offer for experts: the services of a file, and tools that come with operad.

    Args:
        services: The loaded services; MCP servers are asked for their tools.
        file: Their file, whose definitions experts repeat; None for those of the environment.
    """
    data: dict[str, Any] = {}
    if file is not None:
        document = read_document(file)
        name_tools(document)
        data = document.data
    tools: dict[str, Any] = {
        name: {"type": kind} for kind, name in READY.items() if kind != "WEB_SEARCH" or services.search
    }
    tools |= {_name_of(tool): tool for tool in each_of(data.get("tools"))}
    described, reading = dict(_READY_TOOLS), [name for name, tool in tools.items() if tool.get("type") in READY]
    async with connections() as opened:
        for source in services.known_tools:
            listed = await opened.tools([source])
            lines = [_described(tool) for tool in listed]
            reading += [source.name] if all(tool.read_only for tool in listed) else []
            described[source.name] = lines[0] if isinstance(source, Tool) else f"{source.name}: {'; '.join(lines)}"
    outside = {key: data[key] for key in ("search", "http") if data.get(key)}
    models, knowledge = fields_of(data.get("models")), fields_of(data.get("knowledge"))
    return ExpertOffer(tools, described, reading, models, knowledge, outside)


def _name_of(tool: Any) -> str:
    """Return the name of a tool by its definition, or by its module and name."""
    fields = fields_of(tool)
    return _text(fields.get("name")) or READY.get(_text(fields.get("type")), "") or _text(tool).rpartition(".")[2]


def _described(tool: Tool) -> str:
    arguments = ", ".join(fields_of(tool.parameters.get("properties")))
    return f"{tool.name}({arguments}): {' '.join(tool.description.split())[:200]}"


@dataclass(frozen=True)
class ExpertDesign(DesignResult):
    """Result of an instruction.

    Attributes:
        text: The file; empty if nothing was written.
        before: The file before; empty if there was none.
        message: The final message of the designer.
    """

    text: str
    before: str
    message: WorkflowMessage

    @property
    def accepted(self) -> bool:
        """True if the file has no issues, and does everything that was asked for."""
        return self.message.status is WorkflowStatus.SUCCESS

    @property
    def corrected(self) -> list[str]:
        """Findings that the model corrected."""
        return texts_in(self.message.outputs.get("corrected"))

    @property
    def neither(self) -> list[str]:
        """Names in the request that are neither inputs nor results, each with the model's words for it."""
        return reasons_in(self.message.outputs.get("neither"))

    @property
    def gone(self) -> list[str]:
        """Inputs and fields of the result that the file had before and has no longer."""
        before, now = (
            _inputs_and_results(ExpertFile(text)) if text else set[str]() for text in (self.before, self.text)
        )
        return sorted(before - now) if self.text else []


class ExpertDesigner:
    """Generator of files of experts, which also changes them by instructions.

        design = ExpertDesigner().design("Answer letters in German, in two sentences (variable answer).")
        Path("clerk.yaml").write_text(design.text)

    Args:
        model: The model; None for that of the configuration or the environment.
        config: The configuration of the designer: a YAML file, or the name of one that comes with operad.
        model_name: Name of the model at its endpoint, instead of the configuration's.
        base_url: An endpoint, instead of the configuration's.
        trust: True if the configuration may do what it can; see `load`.
        offer: Tools, models and knowledge that experts may use, of `expert_offer`; by default tools that come with operad.
        file: Path of the file, for its issues; its modules lie beside it.

    Raises:
        InputError: The configuration does not exist.
        InvalidError: The configuration is not valid; every issue is listed.
    """

    def __init__(
        self,
        model: Model | None = None,
        *,
        config: str | Path = EXPERT_DESIGNER,
        model_name: str | None = None,
        base_url: str | None = None,
        trust: Trust = False,
        offer: ExpertOffer | None = None,
        file: str = "expert.yaml",
    ) -> None:
        self._offer = offer
        self._file = file
        self.expert: Expert = load(config, trust=trust).expert(model=model, model_name=model_name, base_url=base_url)

    async def job(self, instruction: str, base: str = "") -> Job:
        """Return an instruction as a job of the designer, with the names of secrets in place of keys; see `name_keys`.

        Args:
            base: The existing file, as text.

        Raises:
            InputError: The instruction is empty, or the file has not exactly one expert.
            InvalidError: The file is not valid.
        """
        if not instruction.strip():
            raise InputError(
                "the instruction is empty: say what the expert is asked, what it does, and what it answers"
            )
        if len(base) > MAX_CHARACTERS:
            raise InputError(
                f"{self._file}: has {len(base):,} characters; a model is shown {MAX_CHARACTERS:,} at most: edit the file"
            )
        if base and len(preview_text(base, self._file, Path(self._file).parent).profiles) != 1:
            raise InputError(
                f"{self._file}: only a file with one expert can be changed in words; edit the others in the file"
            )
        offer = self._offer or await expert_offer(Services())
        inputs: dict[str, Any] = {"offer": {name: getattr(offer, name) for name in ExpertOffer.__slots__}}
        goal, secrets = name_keys(instruction.strip())
        return Job(goal=goal, inputs={**inputs, "expert": base, "file": self._file, SECRETS: list(secrets)})

    def design(self, instruction: str, base: str = "") -> ExpertDesign:
        """Generate or change a file, and wait for it; for callers without an event loop. See `adesign`.

        Raises:
            RunningLoopError: An event loop is running here: await `adesign` instead.
        """
        return run_sync(lambda: self.adesign(instruction, base), instead="designer.adesign(…)")

    async def adesign(self, instruction: str, base: str = "") -> ExpertDesign:
        """Generate or change a file of an expert; the text of everything that does not change stays.

        Args:
            base: The existing file, as text.

        Raises:
            InputError, InvalidError: As of `job`.
            ModelError: The endpoint failed before anything was written.
        """
        return self.result(await self.expert.aexecute(await self.job(instruction, base)), base)

    def result(self, message: WorkflowMessage, base: str) -> ExpertDesign:
        """Return the design in the designer's final message."""
        return ExpertDesign(_text(message.outputs.get("expert")), base, message)


class WriteExpert(Stage):
    """Writes the file of an expert, by a plan of the model; issues of the file go back to the model.

    Outputs:
        expert: The best file; absent if there is none.
        findings: What is wrong with it.
        notes: Notes of its plan.
        left_out: What was asked for and the expert does not do, also by earlier requests.
        corrected: Findings of earlier answers, which no longer hold.
        prompt: Estimated tokens of each part of the prompt.
    """

    asks_model = True

    async def run(self, call: OperatorCall) -> WorkflowMessage:
        """Ask the model for a plan until the file of it has no findings; keep the file with the fewest."""
        job = call.job
        offer = ExpertOffer(**fields_of(job.inputs["offer"]))
        path = _text(job.inputs["file"])
        base = ExpertFile(_text(job.inputs["expert"]), path) if job.inputs["expert"] else None
        schema = _CHANGE if base else _DRAFT
        parts = [
            Part("Rules", _rules("expert_change" if base else "expert_generation"), fixed=True),
            Part("Tools", offer.shown),
            *([Part("The file", name_keys(base.text).text, data=True)] if base else ()),
        ]
        best: dict[str, Any] = {}
        answers, words, found = list[str](), list[str](), list[str]()

        async def attempt(lesson: str) -> None:
            nonlocal best
            last = [Part("Your last answer", answers[-1], data=True)] if answers else []
            task = task_of(job, [*parts, *last], AnswerSchema.unchecked(schema), [lesson])
            answer = await ask_object(call.reasoner, task, _KEYS)
            if said := words_of(answer):
                words.append(f"the model answered without a plan, and said: {said}")
                raise AnswerError(words[-1]) if len(words) > 1 else UnfitError(words[-1])
            plan = _normal_plan(answer)
            answers.append(json.dumps({key: value for key, value in plan.items() if value}, ensure_ascii=False))
            text, findings = _file_of(plan, offer, base, job.goal, path)
            found.extend(findings)
            if not (best and findings) or (text and (not best["expert"] or len(findings) < len(best["findings"]))):
                best = {"expert": text or best.get("expert", ""), "findings": findings}
                best |= {key: plan[key] for key in ("left_out", "neither")}
                told = _notes_on_tools(ExpertFile(text), base, plan["unapproved"]) if text else ()
                best["notes"] = [*notes_on_keys(job), *plan["notes"], *told]
            if findings:
                raise UnfitError("\n".join(f"- {finding}" for finding in findings))

        try:
            await until_fit(attempt, MAX_TRIES)
        except UnfitError:  # `best` has the findings
            pass
        except (AnswerError, ModelError) as error:
            if isinstance(error, ModelError) and not best:
                raise
            best = {"expert": "", "left_out": {}, **best, "findings": [*best.get("findings", ()), describe(error)]}
        findings, left_out = best["findings"], best["left_out"]
        corrected = [finding for finding in dict.fromkeys(found) if finding not in findings]
        message = self._message(job, best["expert"], **best, corrected=corrected, prompt=sizes(parts, schema))
        if best["expert"] and not findings and not left_out:
            return message
        if left_out and not findings:  # another attempt would leave the same out
            status, why = WorkflowStatus.JOB_TOO_COMPLICATED_ERROR, f"left out: {', '.join(left_out)}"
        else:
            status, why = WorkflowStatus.EXECUTION_ERROR, "\n".join(findings)
        return message.model_copy(update={"status": status, "evaluation": why})


@cache
def _rules(name: str) -> str:
    return (files("operad.configs") / f"{name}.md").read_text(encoding="utf-8").strip()


# From a plan to a file


def _normal_plan(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return the plan in an answer of any form that has one reading: lists as one text, operators by name."""
    given = parsed(answer.get("operators"))
    by_name = [{"name": name, **fields_of(each)} for name, each in fields_of(given).items()]
    operators = [
        {
            "name": _text(each.get("name")).strip(),
            **{key: _text(each.get(key)) for key in ("instruction", "check", "model") if each.get(key)},
            **{key: texts_of(each.get(key)) for key in ("tools", "ports") if each.get(key)},
            **({"output": each["output"]} if each.get("output") else {}),
            **({"map": _text(fields_of(each["map"]).get("over") or each["map"])} if each.get("map") else {}),
        }
        for each in by_name or each_of(given)
    ]
    chains = list_of(parsed(answer.get("workflow")))
    swaps = parsed(answer.get("replace"))
    return {
        "operators": [each for each in operators if each["name"]],
        "workflow": [texts_of(chain) for chain in (chains if any(map(list_of, chains)) else [chains]) if chain],
        "max_rounds": answer.get("max_rounds"),
        "budget": fields_of(answer.get("budget")),
        **{key: _text(answer.get(key)) for key in ("name", "description", "reasoner", "knowledge")},
        **{key: texts_of(answer.get(key)) for key in ("drop", "criteria", "approve", "notes", "outdated")},
        **{key: reasons_of(answer.get(key)) for key in ("inputs", "left_out", "neither", "unapproved")},
        "replace": [
            (old, _text(each.get("new")))
            for each in (*each_of(swaps), fields_of(swaps))
            if (old := _text(each.get("old")))
        ],
    }


def _file_of(
    plan: dict[str, Any], offer: ExpertOffer, base: ExpertFile | None, request: str, path: str
) -> tuple[str, list[str]]:
    """Return the file of a plan, empty if it cannot be written, and what is wrong with it."""
    if not plan["operators"] and base is None:
        return "", [] if plan["left_out"] else ["there is no operator; if nothing can be done, `left_out` says why"]
    tools, findings = _tools(plan, offer, base, request)
    models = [each.get("model") for each in plan["operators"] if _text(each.get("model")) not in request]
    findings += _unknown("model", models, offer.models)
    findings += _unknown("knowledge base", [plan["knowledge"]], offer.knowledge)
    text, refused = "", plan["left_out"]
    try:
        written = _new(plan, tools, offer) if base is None else _changed(base, plan, tools, offer)
        file = _with_edges(ExpertFile(_with_left_out(written, plan, tools), path))
        text = file.text
        is_done = base and _left_out(base.text).keys() - plan["left_out"]
        if base and not is_done and _LEFT_OUT.sub("", text) == _LEFT_OUT.sub("", base.text):
            return "", [] if refused else ["nothing changes; if nothing can be changed, `left_out` says why"]
        findings += [*_findings(file, plan, base), *_lost_names(file, plan, base, request, tools)]
        preview_text(text, path, Path(path).parent)
    except InvalidError as error:
        findings += [issue_line(placed(issue, path)._replace(line=0)) for issue in error.issues]
    except InputError as error:
        findings.append(str(error))
    return text, list(dict.fromkeys(findings))


def _left_out(text: str) -> dict[str, str]:
    """Return what the comments of a file leave out, each with the reason."""
    return {what: why for what, _, why in (line.partition(": ") for line in _LEFT_OUT.findall(text))}


def _with_left_out(text: str, plan: dict[str, Any], tools: Mapping[str, Any]) -> str:
    """Return a file with a comment for each thing that it leaves out; the plan then has those of earlier requests, too.

    Raises:
        InputError: The plan calls something outdated that the file does not leave out.
    """
    before = _left_out(text)
    outdated = [said.removeprefix("# left out: ").partition(": ")[0] for said in plan["outdated"]]
    if wrong := _unknown("line `# left out`", outdated, before):
        raise InputError(f"`outdated`: {wrong[0]}")
    done = {*outdated, *tools, *(_name_of(tool) for tool in tools.values())}
    plan["left_out"] = {what: why for what, why in before.items() if what not in done} | plan["left_out"]
    lines = [" ".join(f"# left out: {what}: {why}".split()).removesuffix(":") for what, why in plan["left_out"].items()]
    return "".join(f"{line}\n" for line in lines) + _LEFT_OUT.sub("", text)


def _with_edges(file: ExpertFile) -> ExpertFile:
    """Return a file with edges to each operator from those before it that it reads.

    After a branch no edge is added, as the operator would then also run where the branch was not chosen.
    """
    chains, operators = file.chains(0), file.definitions()
    before: dict[str, set[str]] = {item.name: set() for chain in chains for item in chain}
    for _ in before:  # as often as the longest path may be long
        for first, second in (edge for chain in chains for edge in pairwise(chain)):
            before[second.name] |= {first.name, *before[first.name]}
    for reader in before:
        direct = {first.name for chain in chains for first, second in pairwise(chain) if second.name == reader}
        fields = operators[reader][1] if reader in operators else {}
        for name in _reads(fields):
            between = {each for each in before[reader] if each == name or name in before[each]}
            is_sure = not any(operators[each][1].get("ports") for each in between if each in operators)
            if name in before[reader] - {*direct, *texts_of(fields.get("inputs"))} and is_sure:
                file = file.with_chains(0, connected(file.chains(0), Item(name), reader))
    return file


def _tools(
    plan: Mapping[str, Any], offer: ExpertOffer, base: ExpertFile | None, request: str
) -> tuple[dict[str, Any], list[str]]:
    """Return the definitions of the tools of a plan by name, and findings on those that do not exist.

    A function is a tool if the request names it with its module; the check of the file finds whether it exists.
    """
    there = {_name_of(tool) for tool in list_of(base.data.get("tools"))} if base else set[str]()
    operators = base.definitions() if base else {}
    inline = [tool for _, fields in operators.values() for tool in list_of(fields.get("tools"))]
    own = {_name_of(tool): fields_of(tool) or dotted_tool(tool) for tool in inline if fields_of(tool) or "." in tool}
    defined = {**own, **offer.tools}
    found, findings = dict[str, Any](), list[str]()
    wanted = [name for each in plan["operators"] for name in each.get("tools", ())]
    for name in dict.fromkeys([*wanted, *plan["approve"]]):
        dotted = name.replace(":", ".")
        if name in defined or name in there:
            found[name] = defined.get(name)
        elif all(parts := dotted.rpartition(".")) and parts[0] in request and parts[2] in request:
            found[name] = dotted_tool(dotted)
        else:
            missing = _unknown("tool", [name], [*there, *defined])
            findings += [f"{each}; remove it, and say in `left_out` what the job asks of it" for each in missing]
    asking = {*plan["approve"], *(found.keys() - {*inline, *offer.reading, *plan["unapproved"]})}
    return {
        name: {**tool, "approve": True} if tool and name in asking else tool for name, tool in found.items()
    }, findings


def _notes_on_tools(file: ExpertFile, base: ExpertFile | None, unapproved: Mapping[str, str]) -> Iterator[str]:
    """Yield a note for each new tool that asks a person, or that may change something and does not ask."""
    before = {_name_of(tool) for tool in list_of(base.data.get("tools"))} if base else set[str]()
    for name, tool in {_name_of(tool): tool for tool in each_of(file.data.get("tools"))}.items():
        if name not in before and tool.get("approve"):
            yield f"{name}: a person is asked before each call; to leave this out, say in the request that it needs no approval"
        elif name not in before and name in unapproved:
            yield f"{name} runs without approval: {unapproved[name]}"


def _unknown(kind: str, names: Iterable[Any], known: Collection[str]) -> list[str]:
    return [
        f"no {kind} is called {name!r}{did_you_mean(name, known)}; there are: {', '.join(known) or 'none'}"
        for name in names
        if name and name not in known
    ]


def _new(plan: Mapping[str, Any], tools: Mapping[str, Any], offer: ExpertOffer) -> str:
    """Return the text of a new file."""
    name, description = plan["name"] or "Expert", plan["description"]
    alone = [[each["name"]] for each in plan["operators"]] if len(plan["operators"]) == 1 else []
    expert: dict[str, Any] = {
        "profile": {"name": name, "desc": description},
        "workflow": [
            [name if port is None else {"operator": name, "port": port} for name, port in chain]
            for chain in _chains(plan["workflow"] or alone)
        ],
        "evaluator": {"instruction": _criteria(plan)},
        **{key: plan[key] for key in ("max_rounds", "budget")},
    }
    values: dict[str, Any] = {
        "app": {"name": name, "desc": description},
        "reasoner": {"type": plan["reasoner"] or "MONO"},
        "tools": list(tools.values()),
        "knowledgebase": offer.knowledge.get(plan["knowledge"]),
        "services": _services(tools, offer),
        "operators": [{"name": each["name"], **_operator(each, tools, offer)} for each in plan["operators"]],
        "experts": [{key: value for key, value in expert.items() if value and value != {"instruction": ""}}],
    }
    nodes = {
        key: list_node([mapping_node({name: value_node(item) for name, item in part.items()}) for part in value])
        if key in ("operators", "experts")
        else value_node(value)
        for key, value in values.items()
        if value
    }
    return serialized(mapping_node(nodes))


def _changed(base: ExpertFile, plan: Mapping[str, Any], tools: Mapping[str, Any], offer: ExpertOffer) -> str:
    """Return the text of a file with the changes of a plan.

    Raises:
        InputError: Its text cannot be changed in this way.
    """
    file = _with_operators(_with_replaced(base, plan), plan, tools, offer)
    there = {_name_of(tool): number for number, tool in enumerate(list_of(file.data.get("tools")))}
    for name, tool in tools.items():
        if name not in there:
            file = file.with_fields((), {"tools": [*list_of(file.values.get("tools")), tool]})
        elif name in plan["approve"]:
            file = file.with_fields(("tools", there[name]), {"approve": True})
    changes: dict[tuple[str | int, ...], dict[str, Any]] = {
        (): {
            "services": {**_services(tools, offer), **fields_of(file.values.get("services"))},
            "knowledgebase": offer.knowledge.get(plan["knowledge"]),
            "reasoner": plan["reasoner"] and {**fields_of(file.values.get("reasoner")), "type": plan["reasoner"]},
        },
        ("experts", 0, "profile"): {"name": plan["name"], "desc": plan["description"]},
        ("experts", 0): {key: plan[key] for key in ("max_rounds", "budget")},
    }
    for path, fields in changes.items():
        file = file.with_fields(path, {key: value for key, value in fields.items() if value})
    return (_with_criteria(file, plan) if plan["criteria"] else file).text


def _with_replaced(file: ExpertFile, plan: Mapping[str, Any]) -> ExpertFile:
    """Return a file with words of its instructions, checks and criteria replaced."""
    for old, new in plan["replace"]:
        places = [
            (path, {key: text.replace(old, new)})
            for path, fields in file.definitions().values()
            for key in ("instruction", "check")
            if old in (text := _text(fields.get(key)))
        ]
        if not places:
            raise InputError(f"`replace`: no instruction, check or criterion has {old!r}; copy the words from the file")
        for path, fields in places:
            file = file.with_fields(path, fields)
    return file


def _with_operators(
    file: ExpertFile, plan: Mapping[str, Any], tools: Mapping[str, Any], offer: ExpertOffer
) -> ExpertFile:
    """Return a file with the operators of a plan, without those that it drops, and with its chains."""
    for unknown in _unknown("operator", plan["drop"], file.definitions()):
        raise InputError(unknown)
    for name in plan["drop"]:
        file = file.without_operator(0, name, rewire=True)
    for each in plan["operators"]:
        fields = _operator(each, tools, offer)
        if each["name"] in file.definitions():
            file = file.with_fields(file.definitions()[each["name"]][0], fields)
        else:
            added = [*list_of(file.values.get("operators")), {"name": each["name"], **fields}]
            file = file.with_fields((), {"operators": added})
    return file.with_chains(0, _chains(plan["workflow"])) if plan["workflow"] else file


def _with_criteria(file: ExpertFile, plan: Mapping[str, Any]) -> ExpertFile:
    """Return a file with the criteria of a plan for its evaluator."""
    judge = {"instruction": _criteria(plan)}
    evaluators = [file.definitions()[name] for name in file.evaluators(0)]
    if not evaluators:
        return file.with_evaluators(0, ["evaluator"], judge)
    if len(evaluators) > 1 or "instruction" not in evaluators[0][1]:
        raise InputError("`criteria`: the file has several evaluators, or one in code; leave `criteria` out")
    return file.with_fields(evaluators[0][0], judge)


def _operator(planned: Mapping[str, Any], tools: Mapping[str, Any], offer: ExpertOffer) -> dict[str, Any]:
    """Return the keys of a planned operator as a file has them."""
    fields = {key: planned[key] for key in ("instruction", "output", "tools", "ports", "check") if planned.get(key)}
    if "tools" in fields:
        fields["tools"] = [_name_of(tools.get(name)) or name for name in fields["tools"]]
    if planned.get("map"):
        fields["map"] = {"over": planned["map"]}
    if planned.get("model"):
        fields["model"] = offer.models.get(planned["model"], planned["model"])
    return fields


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _chains(workflow: Iterable[Iterable[str]]) -> list[list[Item]]:
    parts = [[step.partition(":") for step in chain] for chain in workflow]
    return [[Item(name, port if colon else None) for name, colon, port in chain] for chain in parts]


def _criteria(plan: Mapping[str, Any]) -> str:
    criteria = plan["criteria"]
    return "\n".join(f"- {each}" for each in criteria) if len(criteria) > 1 else "".join(criteria)


def _services(tools: Mapping[str, Any], offer: ExpertOffer) -> dict[str, Any]:
    """Return the `services` that the tools of a plan need, as far as the offer has them."""
    kinds = {fields_of(tool).get("type") for tool in tools.values()}
    return {
        key: value
        for key, value in offer.services.items()
        if "WEB_SEARCH" in kinds or (key == "http" and kinds & {"WEB_READER", "WIKIPEDIA"})
    }


def _findings(file: ExpertFile, plan: Mapping[str, Any], base: ExpertFile | None) -> Iterator[str]:
    """Yield the faults of a file, beside its issues: operators in its chains, criteria, and inputs."""
    steps = {item.name for chain in file.chains(0) for item in chain}
    for name in (each["name"] for each in plan["operators"]):
        if name not in steps and name not in file.evaluators(0):
            yield f"operator {name!r} never runs: `workflow` does not name it"
    if base is None and not file.evaluators(0) and not plan["notes"]:
        yield "there are no `criteria`; if the job wants no evaluator, a note says so"
    read, known = _read(file), {*file.definitions(), *plan["inputs"], *(_read(base) if base else ())}
    for name in plan["inputs"]:
        if name not in read:
            yield f"no operator reads the input {name!r}: write {{{name}}} in an instruction"
    for name, operator in read.items():
        if name not in known:
            yield (
                f"{operator}: {{{name}}} is neither an input nor an operator{did_you_mean(name, known)}; declare it in "
                f"`inputs`, or write {{{{{name}}}}} for a text in braces"
            )


def _lost_names(
    file: ExpertFile, plan: Mapping[str, Any], base: ExpertFile | None, request: str, tools: Collection[str]
) -> Iterator[str]:
    """Yield the names that a request marks and that are neither inputs nor results.

    `neither` is believed for a variable only if some operator has it; in backquotes may also stand a tool, an operator or
    a choice of an answer.
    """
    operators = {name: fields for name, (_, fields) in file.definitions().items()}
    inner = set[str]().union(*map(_fields, operators.values()))
    words = set(re.findall(r"[\w-]+", "".join(f"{_output(each)} {each.get('ports')}" for each in operators.values())))
    given, before = _inputs_and_results(file), _inputs_and_results(base) if base else set[str]()
    left_out = set(re.findall(r"[\w-]+", json.dumps(plan["left_out"], ensure_ascii=False)))
    for name, is_variable in marked_names(request).items():
        is_excused = name in plan["neither"] and (not is_variable or name in before or name in words)
        is_mentioned = not is_variable and name in {*operators, *tools, *(words - inner)}
        if name not in given and name not in left_out and not is_excused and not is_mentioned:
            yield (
                f"{name}: the job marks it, and it is neither an input nor a field of the result{did_you_mean(name, given)}: "
                "add it to the `output` of the last operator, or to `inputs`; if it is something else, say what in `neither`"
            )


def _inputs_and_results(file: ExpertFile) -> set[str]:
    """Return the names of the inputs of an expert, and of the fields of its result."""
    operators = {name: fields for name, (_, fields) in file.definitions().items()}
    chains = file.chains(0)
    followed = {first.name for chain in chains for first, _ in pairwise(chain)}
    last = {item.name for chain in chains for item in chain} - followed
    results = set[str]().union(*(_fields(operators[name]) for name in last if name in operators))
    return results | (_read(file).keys() - operators.keys())


def _read(file: ExpertFile) -> dict[str, str]:
    """Return the names that the instructions of a file read in braces, and lists of maps, each with its operator."""
    return {name: operator for operator, (_, fields) in file.definitions().items() for name in _reads(fields)}


def _reads(operator: Mapping[str, Any]) -> list[str]:
    """Return the names of the inputs and operators that an operator reads."""
    text = f"{operator.get('instruction')} {operator.get('check')}"
    over = _text(fields_of(operator.get("map")).get("over")).partition(".")[0]
    return [field.name for field in Template(text).fields if not field.may_be_text] + [over] * bool(over)


def _fields(operator: Mapping[str, Any]) -> set[str]:
    """Return the names of the fields of an operator's answer, also of nested ones."""
    return set(re.findall(r"([\w-]+)\??[\"']?\s*:", _output(operator)))


def _output(operator: Mapping[str, Any]) -> str:
    """Return the form of an operator's answer as text."""
    output = operator.get("output") or operator.get("output_schema") or fields_of(operator.get("params")).get("outputs")
    return output if isinstance(output, str) else json.dumps(output or {}, ensure_ascii=False)
