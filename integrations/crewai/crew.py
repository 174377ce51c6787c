"""CrewAI's `agents.yaml` and `tasks.yaml` as a file of experts: an operator for each task, in the role of its agent."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import networkx

from operad.configs.foreign import Experts, ExpertSource
from operad.flows.formats.format import content_of
from operad.flows.formats.shapes import fields_of, list_of
from operad.flows.formats.yaml_text import list_node, mapping_node, read_yaml, serialized, value_node
from operad.flows.node_graph import cycle_issues
from operad.operators.instruction import Template
from operad.runtime.values.arguments import short_repr
from operad.runtime.values.errors import InvalidError, Issue, did_you_mean
from operad.runtime.values.ids import settled_id, slug
from operad.runtime.values.keys_in_text import name_keys
from operad.runtime.values.schema import AnswerSchema

_PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_\-]*)\}")
"""CrewAI's placeholders; all other braces are text."""

_PYTHON = "is made by Python code of the crew"
_AGENT = {
    "llm": ("note", "the model of the run is asked; `model` of an operator names another one"),
    "verbose": ("note", "has no effect on a result; see `operad run --view`"),
    "cache": ("note", "has no effect on a result; `cache` of an operator keeps its messages"),
    "respect_context_window": ("note", "prompts are always cut to the window of the model"),
    "use_system_prompt": ("note", "Operad chooses the messages of a prompt"),
    "max_retry_limit": ("note", "failed calls are repeated by the policy; see `retry` of an operator"),
    "allow_delegation": ("loss", "an operator does not delegate; add a `leader`, which splits jobs over experts"),
    "memory": ("loss", "there is no memory of an agent; `env: {insights: true}` keeps lessons of earlier runs"),
    "reasoning": (
        "loss",
        "does not plan first; `reasoner: {type: DUAL}` of the expert has a second model direct the work",
    ),
    "max_reasoning_attempts": ("note", "belongs to `reasoning`"),
    "planning": (
        "loss",
        "does not plan first; `reasoner: {type: DUAL}` of the expert has a second model direct the work",
    ),
    "multimodal": ("note", "files of a job are shown to models that read them"),
    "allow_code_execution": ("loss", "runs no code; add a tool, or a `code` node"),
    "code_execution_mode": ("note", "belongs to `allow_code_execution`"),
    "inject_date": ("loss", "the date is not in the prompt; write it as an input, such as {date}"),
    "date_format": ("note", "belongs to `inject_date`"),
    "function_calling_llm": ("loss", "one model answers and calls tools"),
    "max_tokens": ("loss", "is not set; write `model: {max_tokens: …}`"),
    "knowledge_sources": ("loss", f"{_PYTHON}; name files under `knowledgebase`"),
    "embedder": ("loss", "belongs to knowledge and memory; see `embeddings` of a `knowledgebase`"),
    "step_callback": ("loss", f"{_PYTHON}; see events"),
    "system_template": ("loss", "Operad writes its own prompts"),
    "prompt_template": ("loss", "Operad writes its own prompts"),
    "response_template": ("loss", "Operad writes its own prompts"),
}
_TASK = {
    "name": ("note", "the operator is named by the key of the task"),
    "create_directory": ("note", "belongs to `output_file`"),
    "output_file": ("loss", "no file is written; `operad run` prints the result"),
    "output_json": ("loss", f"the class {_PYTHON}; describe its fields under `output`"),
    "output_pydantic": ("loss", f"the class {_PYTHON}; describe its fields under `output`"),
    "response_model": ("loss", f"the class {_PYTHON}; describe its fields under `output`"),
    "guardrail_max_retries": ("note", "a model corrects an answer that fails its `check` at most twice"),
    "max_retries": ("note", "a model corrects an answer that fails its `check` at most twice"),
    "callback": ("loss", f"{_PYTHON}; add a function after the operator"),
    "callbacks": ("loss", f"{_PYTHON}; add a function after the operator"),
    "input_files": ("loss", "is not read; give files to the run by `--file`"),
    "allow_crewai_trigger_context": ("loss", "there is no trigger; give the payload as an input"),
    "security_config": ("note", "has no effect on a result"),
    "converter_cls": ("loss", _PYTHON),
}
"""Keys that a file of experts does not hold: the code of the loss, and what is so here."""

_NO: tuple[Any, ...] = (None, False, "", [], {})
_WORDS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


# Files


def _kind(path: Path) -> str:
    """Return ``agents`` or ``tasks``, by the keys of a file's entries and its name; empty for another file."""
    named = next((kind for kind in ("agents", "tasks") if path.stem.lower().endswith(kind)), "")
    try:
        entries = fields_of(read_yaml(content_of(path), str(path), merges=True).value).values()
    except InvalidError:  # which reading it tells, if its name says what it is
        return named
    keys = {key for each in entries for key in fields_of(each)}
    of_agents, of_tasks = keys & {"role", "goal", "backstory"}, keys & {"description", "expected_output"}
    if named:
        return named if of_agents or of_tasks else ""
    return "tasks" if len(of_tasks) == 2 and not of_agents else "agents" if len(of_agents) == 3 else ""


def _in_folder(folder: Path) -> list[Path]:
    """Return the two files of a project: in its folder, in `config`, or in `src/NAME/config`."""
    for place in (folder, folder / "config", *sorted(folder.glob("src/*/config"))):
        found = [
            next((path for end in ("yaml", "yml") if (path := place / f"{name}.{end}").is_file()), None)
            for name in ("agents", "tasks")
        ]
        if all(found):
            return [path for path in found if path]
    return []


def _files(paths: Sequence[Path]) -> list[Path]:
    """Return the file of agents and that of tasks for both, one of them, a folder, or the `crew.py` beside them."""
    if len(paths) == 1 and (paths[0].is_dir() or paths[0].name == "crew.py"):
        return _in_folder(paths[0] if paths[0].is_dir() else paths[0].parent)
    kinds = {_kind(path): path for path in paths if path.suffix in (".yaml", ".yml") and path.is_file()}
    kinds.pop("", None)
    if len(paths) == 1 and kinds:
        [(kind, path)] = kinds.items()
        other = "tasks" if kind == "agents" else "agents"
        beside = path.with_name(path.name.replace(kind, other))
        if beside == path or not beside.is_file():
            told = f"there is no {other}.yaml beside it; name both files"
            raise InvalidError("CrewAI's files cannot be converted", [Issue("missing-file", told, str(path))])
        kinds[other] = beside
    return [kinds["agents"], kinds["tasks"]] if len(kinds) == 2 and len(paths) <= 2 else []


# Reading


@dataclass(frozen=True)
class _Reading:
    """A file, with the issues and losses found in it so far."""

    path: Path
    entries: Mapping[str, Any]
    lines: Mapping[tuple[int, str | int], int]
    names_at: Mapping[str, int]
    anchors: Mapping[int, str]
    issues: list[Issue] = field(default_factory=list[Issue])
    losses: list[Issue] = field(default_factory=list[Issue])

    @classmethod
    def of(cls, path: Path) -> _Reading:
        found = read_yaml(content_of(path), str(path), merges=True)
        if not fields_of(found.value):
            told = Issue("shape", "expected a mapping of names to agents or tasks", str(path))
            raise InvalidError("CrewAI's files cannot be converted", [told])
        entries = fields_of(found.value)
        return cls(path, entries, found.lines, {name: found.line(found.value, name) for name in entries}, found.anchors)

    def where(self, name: str, key: str = "") -> str:
        entry = self.entries.get(name)
        line = self.lines.get((id(entry), key)) if key else None
        line = line or self.names_at.get(name, 1)
        return f"{self.path}:{line}: {name}{'.' if key else ''}{key}"

    def issue(self, code: str, told: str, name: str, key: str = "") -> None:
        self.issues.append(Issue(code, told, self.where(name, key)))

    def loss(self, code: str, told: str, name: str, key: str = "") -> None:
        self.losses.append(Issue(code, told, self.where(name, key)))

    def each(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the entries that are mappings; others are issues."""
        for name, entry in self.entries.items():
            if isinstance(entry, dict):
                yield name, fields_of(entry)
            else:
                self.issue("value", f"expected a mapping, got {short_repr(entry)}", name)

    def text(self, name: str, key: str, *, needed: bool = True) -> str:
        """Return a text without space around it and without keys; another value, or a needed text that is missing, is an issue."""
        value = self.entries[name].get(key)
        if isinstance(value, str) and value.strip():
            text, keys = name_keys(value.strip())
            if keys:
                self.loss("loss", "a key is written here, which stays in this file; give it to a tool", name, key)
            return text
        if value is not None and not isinstance(value, str):
            self.issue("value", f"expected a text, got {short_repr(value)}; put it in quotes", name, key)
        elif needed:
            self.issue("missing-key", f"{key} is missing or empty; CrewAI requires it", name, key)
        return ""

    def names(self, name: str, key: str) -> list[str]:
        """Return a list of names; another value is an issue."""
        value: Any = self.entries[name].get(key)
        names = [each for each in list_of(value) if isinstance(each, str)]
        if value is not None and names != value:
            self.issue("value", f"expected a list of names, got {short_repr(value)}", name, key)
        return names

    def number(self, name: str, key: str) -> int:
        """Return a whole number from 1, also one written as text; 0 without one. Another value is an issue."""
        value = self.entries[name].get(key)
        if isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}", value.strip()):
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and 1 <= value < 10**9:
            return value
        if value is not None:
            self.issue("value", f"expected a whole number from 1, got {short_repr(value)}", name, key)
        return 0

    def switch(self, name: str, key: str) -> bool:
        """Return a boolean, also one written as text; another value is an issue."""
        value = self.entries[name].get(key)
        value = _WORDS.get(value.strip().lower(), value) if isinstance(value, str) else value
        if value is not None and (not isinstance(value, bool | int) or value not in (0, 1)):
            self.issue("value", f"expected true or false, got {short_repr(value)}", name, key)
            return False
        return bool(value)

    def lose(self, name: str, known: Mapping[str, tuple[str, str]], read: Sequence[str]) -> None:
        """Add the losses of an entry's keys that are not read; a switch that is off is none."""
        for key, value in self.entries[name].items():
            if key in read or value in _NO or (isinstance(value, str) and _WORDS.get(value.strip().lower()) is False):
                continue
            hint = did_you_mean(key, [*known, *read])
            code, told = known.get(key, ("loss", f"is an unknown key{hint}"))
            self.loss("note" if code == "note" else "loss", told, name, key)


def _template(text: str) -> str:
    """Return a text of CrewAI as an instruction, in which the same names in braces are replaced."""
    kept = Template(text)
    if not kept.escaped and [each.written for each in kept.fields] == list(
        dict.fromkeys(found[0] for found in _PLACEHOLDER.finditer(text))
    ):
        return text
    parts = _PLACEHOLDER.split(text)  # texts and names by turns
    return "".join(
        f"{{{part}}}" if at % 2 else part.replace("{", "{{").replace("}", "}}") for at, part in enumerate(parts)
    )


def _is_description(text: str) -> bool:
    """Return True if an `output` with this text describes the answer, instead of declaring its fields."""
    if _PLACEHOLDER.search(text) or "{" in text:
        return False
    try:
        return AnswerSchema.parse(text).schema is None
    except InvalidError:
        return False


@dataclass(frozen=True)
class _Agent:
    """Common parts of the operators of an agent's tasks."""

    instruction: str
    fields: Mapping[str, Any]
    requests: int


_READ_OF_AGENT = ("role", "goal", "backstory", "tools", "max_iter", "max_rpm", "max_execution_time", "guardrail")
_READ_OF_TASK = (
    *("description", "expected_output", "agent", "context", "tools", "async_execution", "human_input", "markdown"),
    *("guardrail", "guardrails"),
)


def _agent(file: _Reading, name: str) -> _Agent:
    role, goal, backstory = (file.text(name, key) for key in ("role", "goal", "backstory"))
    sentence = f"You are {role}{'' if role[-1:] in '.!?' else '.'} {backstory}"
    _tools(file, name)
    fields: dict[str, Any] = {}
    if turns := file.number(name, "max_iter"):
        fields["max_turns"] = turns
    if seconds := file.number(name, "max_execution_time"):
        fields["timeout"] = seconds
    if check := file.text(name, "guardrail", needed=False):
        fields["check"] = check
    file.lose(name, _AGENT, _READ_OF_AGENT)
    return _Agent(f"{sentence}\nYour goal: {goal}", fields, file.number(name, "max_rpm"))


def _tools(file: _Reading, name: str) -> None:
    for tool in file.names(name, "tools"):
        told = f"the tool {tool!r} {_PYTHON}; name a function as module.function, or a ready tool, under `tools`"
        file.loss("loss", told, name, "tools")


def _checks(file: _Reading, name: str) -> list[str]:
    """Return the guardrails that are written in words."""
    several = file.entries[name].get("guardrails")
    one = file.text(name, "guardrail", needed=False)
    if isinstance(several, str):
        return [text for text in (one, several.strip()) if text]
    return [text for text in (one, *file.names(name, "guardrails")) if text]


# Order of the tasks


def _without_templates(file: _Reading) -> _Reading:
    """Return the tasks without entries that only stand there to be merged into others."""
    kept: dict[str, Any] = {}
    for name, entry in file.entries.items():
        if {"description", "expected_output"} <= fields_of(entry).keys() or id(entry) not in file.anchors:
            kept[name] = entry
        else:
            file.loss("note", "has no description of a task, and only an anchor; it is left out", name)
    return replace(file, entries=kept)


def _in_order(file: _Reading) -> _Reading:
    """Return the tasks, each after those whose results it needs: in CrewAI, Python code gives the order of the tasks."""
    places = {name: number for number, name in enumerate(file.entries)}
    needs = {
        name: [other for other in list_of(fields_of(entry).get("context")) if isinstance(other, str)]
        for name, entry in file.entries.items()
    }
    for name, others in needs.items():
        if later := [other for other in others if places.get(other, -1) > places[name]]:
            file.loss("note", f"runs after {later[0]!r}, whose result it needs", name, "context")
    file.issues.extend(replace(each, where=file.where(each.where, "context")) for each in cycle_issues(needs))
    if any(each.code == "cycle" for each in file.issues):
        return file
    tasks: Any = networkx.DiGraph(
        (other, name) for name, others in needs.items() for other in others if other in places
    )
    tasks.add_nodes_from(places)
    ordered: Any = networkx.lexicographical_topological_sort(tasks, key=places.__getitem__)
    return replace(file, entries={name: file.entries[name] for name in ordered})


def _sources(file: _Reading, ids: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the tasks whose results each task sees: those of `context`, by default those before it.

    A task that is asynchronous sees the last one before it that is not; the first one after such tasks sees these.
    """
    found: dict[str, list[str]] = {}
    earlier: list[str] = []
    waiting: list[str] = []
    last: list[str] = []
    for name, entry in file.each():
        is_async = file.switch(name, "async_execution")
        if not is_async and waiting:
            earlier, waiting = waiting, []
        if "context" not in entry:
            found[name] = list(last if is_async else earlier)
        else:
            found[name] = []
            for other in dict.fromkeys(file.names(name, "context")):
                if other not in file.entries:
                    hint = did_you_mean(other, list(file.entries))
                    file.issue("unknown-task", f"no task is called {other!r}{hint}", name, "context")
                elif other in found and other != name:  # otherwise a cycle, which is an issue
                    found[name].append(other)
        if is_async:
            waiting = [*waiting, name]
        else:
            earlier, last = [*earlier, name], [name]
    return {name: [each for each in sources if each in ids] for name, sources in found.items()}


def _read(files: Sequence[Path]) -> Experts:
    """Return CrewAI's files as a file with one expert.

    Raises:
        InvalidError: The files have issues.
    """
    agents_file, tasks_file = (_Reading.of(path) for path in files)
    tasks_file = _in_order(_without_templates(tasks_file))
    named = {str(entry.get("agent")).strip() for _, entry in tasks_file.each()}
    agents: dict[str, _Agent] = {}
    for name, _ in agents_file.each():
        if name in named:
            agents[name] = _agent(agents_file, name)
        else:
            agents_file.loss("note", "no task names this agent; it is left out", name)
    texts = [text for file in (agents_file, tasks_file) for _, entry in file.each() for text in entry.values()]
    inputs = {name for text in texts if isinstance(text, str) for name in _PLACEHOLDER.findall(text)}
    ids: dict[str, str] = {}
    for name in tasks_file.entries:
        wanted = name if re.fullmatch(r"[^\W\d][\w-]*", name) else slug(name)
        # An id like the name of an input would be taken for a slip of that name.
        names = (wanted, "task", "step", "work")
        free = (each for each in names if not any(did_you_mean(known, [each]) for known in inputs))
        ids[name] = settled_id(next(free, "task"), lambda each: each in inputs or each in ids.values())
        if ids[name] != name:
            tasks_file.loss(
                "note", f"is the operator {ids[name]!r}, as its name cannot be that of an operator here", name
            )
    operators, chains, criteria = _workflow(tasks_file, ids, agents, list(agents_file.entries))
    if issues := [*agents_file.issues, *tasks_file.issues]:
        raise InvalidError("CrewAI's files cannot be converted", list(dict.fromkeys(issues)))
    expert: dict[str, Any] = {"profile": {"name": "Crew", "desc": _described(tasks_file)}, "workflow": chains}
    if requests := [each.requests for each in agents.values() if each.requests]:
        expert["limits"] = {"requests_per_minute": min(requests)}
    expert["evaluator"] = {"instruction": "\n".join(["Each task has its expected output:", *criteria])}
    losses = [*_of_crew(files), *agents_file.losses, *tasks_file.losses]
    return Experts(_text(operators, expert), list(dict.fromkeys(losses)))


def _workflow(
    file: _Reading, ids: Mapping[str, str], agents: Mapping[str, _Agent], known: Sequence[str]
) -> tuple[list[dict[str, Any]], list[list[Any]], list[str]]:
    """Return the operators, the chains and the criteria of the tasks."""
    operators: list[dict[str, Any]] = []
    chains: list[list[Any]] = []
    criteria: list[str] = []
    gated: set[str] = set()
    sources = _sources(file, ids)
    for name, _ in file.each():
        key = ids[name]
        operator, criterion = _operator(file, name, key, _agent_of(file, name, agents, known))
        criteria.append(f"- {key}: {criterion}")
        _chain(chains, key, [ids[each] for each in sources.get(name, [])], gated, operator)
        operators.append(operator)
        if file.switch(name, "human_input"):
            told = "a person approves the answer or ends the work; feedback does not go back to the agent"
            file.loss("loss", told, name, "human_input")
            gated.add(key)
            operators.append(_approval(key))
            chains.append([key, f"{key}_approval"])
            if list(file.entries)[-1] == name:  # the answer is the result, not that of the person
                result = settled_id("result", lambda each: each in ids.values())
                operators.append({"name": result, "type": "end", "params": {"outputs": {"text": f"{key}.text"}}})
                chains.append([{"operator": f"{key}_approval", "port": "approve"}, result])
        file.lose(name, _TASK, _READ_OF_TASK)
    return operators, chains, criteria


def _agent_of(file: _Reading, name: str, agents: Mapping[str, _Agent], known: Sequence[str]) -> _Agent | None:
    wanted = file.text(name, "agent", needed=False)
    if wanted and wanted not in known:
        file.issue("unknown-agent", f"no agent is called {wanted!r}{did_you_mean(wanted, known)}", name, "agent")
    elif not wanted:
        told = "names no agent, so its instruction has no role; add `agent: NAME`, as crew.py is not read"
        file.loss("loss", told, name)
    return agents.get(wanted)


def _operator(file: _Reading, name: str, key: str, agent: _Agent | None) -> tuple[dict[str, Any], str]:
    """Return the operator of a task, and the criterion of its answer."""
    description, expected = file.text(name, "description"), file.text(name, "expected_output")
    paragraphs = [agent.instruction] if agent else []
    paragraphs.append(description)
    is_output = _is_description(expected)
    if not is_output:
        paragraphs.append(f"Expected output: {expected}")
    if file.switch(name, "markdown"):
        paragraphs.append("Write the answer in Markdown.")
    operator: dict[str, Any] = {"name": key, "instruction": _template("\n\n".join(paragraphs))}
    operator |= {"output": expected} if is_output else {}
    operator |= agent.fields if agent else {}
    _tools(file, name)
    if checks := [*([operator["check"]] if "check" in operator else []), *_checks(file, name)]:
        operator["check"] = " ".join(checks)
    return operator, _template(expected)


def _chain(chains: list[list[Any]], key: str, before: list[str], gated: set[str], operator: dict[str, Any]) -> None:
    """Put an operator into the chains, after the operators before it."""
    gates = [{"operator": f"{each}_approval", "port": "approve"} for each in before if each in gated]
    if len(before) == 1 and not gates and chains and chains[-1][-1] == before[0]:
        chains[-1].append(key)
        return
    if before:
        operator["inputs"] = before
    if gated and before:
        operator["join"] = "all"
    chains += [[gate, key] for gate in gates] or [[key]]


def _approval(key: str) -> dict[str, Any]:
    actions = [{"id": "approve", "title": "Approve"}, {"id": "reject", "title": "Reject"}]
    params = {"question": f"Is this right?\n\n{{{{#{key}.text#}}}}", "actions": actions}
    return {"name": f"{key}_approval", "type": "human-input", "params": params}


def _described(file: _Reading) -> str:
    """Return the first line of the last task's description, with the names of inputs as words."""
    entry = [each for _, each in file.each()][-1:]
    text = name_keys(str(entry[0].get("description") or "").strip()).text if entry else ""
    return _PLACEHOLDER.sub(lambda found: found[1], text.partition("\n")[0])[:200]


def _of_crew(files: Sequence[Path]) -> Iterator[Issue]:
    """Yield a note on the Python code of the crew, which is not read."""
    for folder in (files[0].parent, files[0].parent.parent):
        if (code := folder / "crew.py").is_file():
            told = (
                f"is Python and not read: only {files[0].name} and {files[1].name} are. The tasks run in the order of "
                "their file; process, tools, knowledge and callbacks of the code are lost"
            )
            yield Issue("note", told, str(code))
            return


def _text(operators: Sequence[Mapping[str, Any]], expert: Mapping[str, Any]) -> str:
    """Return the text of a file of experts, with each key on a line of its own."""
    parts = {"operators": operators, "experts": [expert]}
    return serialized(
        mapping_node(
            {
                name: list_node(
                    [mapping_node({key: value_node(value) for key, value in each.items()}) for each in part]
                )
                for name, part in parts.items()
            }
        )
    )


CREWAI = ExpertSource(_files, _read)
