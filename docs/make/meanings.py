"""Meanings and fixes of issue codes and errors, for `docs/reference/errors.md`."""

from __future__ import annotations

from collections.abc import Mapping

Meaning = tuple[str, str]
"""Description of a fault, and an example of a fix."""

MEANINGS: Mapping[str, Mapping[str, Meaning]] = {
    "Files that cannot be read": {
        "format": (
            "the file does not have the expected form",
            'add the part that the message names: `{"nodes_info": [], "edges": []}`',
        ),
        "yaml": (
            "the text is not YAML, or uses an unsupported part of YAML",
            "close the bracket in the line that the message names",
        ),
        "json": ("a line is not JSON", 'write `{"id": "a"}` with double quotes, one object per line'),
        "depth": ("the file is nested too deep", "move inner parts into separate files or nodes"),
        "size": ("the file is larger than the maximum", "split it, or remove unneeded parts"),
        "shape": (
            "a mapping, a list or a text is in a place that requires another type",
            "write `tools: [search]`, not `tools: search`",
        ),
        "tag": (
            "a YAML tag, or a value that YAML cannot read",
            "remove the tag, such as `!!python/name:x`; quote texts that look like dates",
        ),
        "key": ("a key is not plain text, or is a merge key `<<`", "write the keys themselves instead of `<<: *base`"),
        "duplicate-key": ("a key occurs twice", "keep one of the two lines"),
        "input": ("a file or an option cannot be used, for the reason in the message", "pass a valid file or value"),
        "path": ("a file name in an archive leads out of it", "create the archive again without `../` in names"),
        "value": ("a value does not fit its key", "`max_rounds: 3` instead of `max_rounds: many`"),
        "unknown-key": ("the key is unknown in this place", "`instruction:` instead of `instrution:`"),
        "missing-key": ("a required key is missing", "add `instruction: Check each claim.`"),
        "host": (
            "a key of a price file is not the host of an endpoint",
            "`api.openai.com:` instead of `https://api.openai.com/v1:`",
        ),
        "target": ("the picture format is not supported", "use `svg`, `png` or `md`"),
    },
    "Configurations of experts": {
        "unknown-agent": ("no agent of CrewAI has this name", "write the key of the agent in `agents.yaml`"),
        "unknown-task": ("no task of CrewAI has this name", "write the key of the task in `tasks.yaml`"),
        "code-mode": ("an operator in code mode has no tools", "give it tools, or remove `code_mode`"),
        "skill": (
            "the folder of a skill does not have the Agent Skills format, or its scripts cannot be allowed",
            "correct the line of `SKILL.md` that the message names; see [skills](../skills.md)",
        ),
        "unknown-tool": ("no tool has this name", "write the name as under `tools`: `tools: [search]`"),
        "literal-key": (
            "a key is written in a file, whose texts are stored with durable runs",
            "`authorization: {type: bearer, secret: SHOP_API_KEY}`, and `operad secrets set SHOP_API_KEY`",
        ),
        "unknown-action": ("no action has this name", "write the name as under `actions`: `actions: [look up]`"),
        "unknown-operator": (
            "no operator has this name, or it was never added",
            "`workflow: [[facts, check]]` with both under `operators`; in Python, `add_operator(facts)`",
        ),
        "unknown-workflow": (
            "a `sub-workflow` node names a workflow that `services` lacks",
            "`services: {workflows: {translate: translate.json}}`",
        ),
        "cases": ("a file of cases has no list of cases", "write `cases: [{name: a, job: …}]`, or one case per line"),
        "label": (
            "a case for the measurement of an evaluator has no label, or one that contradicts itself",
            "write `accepted: true`, or `accepted: false` with `blame: [facts]`",
        ),
        "steps": (
            "a labelled case lacks answers of operators, or has those of other operators",
            "write `steps: {facts: …, answer: …}`, with the ids of the workflow's operators",
        ),
        "duplicate-name": ("two definitions have the same name", "rename one: `name: check2`"),
        "class": (
            "the class cannot be imported, or is of the wrong kind",
            "`class: my_operators.Check`, a subclass of `Operator`",
        ),
        "params": (
            "the class rejects these arguments",
            "pass the arguments of its `__init__`: `params: {strict: true}`",
        ),
        "platform": (
            "`workflow_platform: DBGPT`, and dbgpt is not installed",
            "`pip install --no-deps 'dbgpt>=0.8.2,<0.9' cloudpickle cachetools`, or remove the key",
        ),
        "function": (
            "a function cannot be used as an operator",
            "`function: my_steps.bullets`, with `my_steps.py` beside the file",
        ),
        "tool-module": (
            "the module of a tool does not import, or lacks the function",
            "`module_path: my_tools`, with `my_tools.py` beside the file",
        ),
        "knowledgebase": (
            "the paths, the index or the embeddings of the knowledge base cannot be used",
            "`paths: [docs]`, a folder beside the file with files in it; `embeddings: embedded`",
        ),
        "knowledge-base": (
            "the knowledge base has no method `retrieve(query)`",
            'pass `Documents(["docs"])`',
        ),
        "insights": (
            "the insights are not given as a file, or the file cannot be used",
            'in YAML `env: {insights: lessons.sqlite}`, in Python `Insights("lessons.sqlite")`',
        ),
        "no-experts": ("a leader has no experts", "add an expert under `experts`"),
        "port": (
            "a port is not allowed in this place",
            "`{operator: triage, port: refund}` after an operator with `ports: [refund]`; a number, or `else`, in a workflow file",
        ),
        "unknown-port": ("the operator has no such port", "declare it: `ports: [refund, complaint]`"),
    },
    "Workflows of operators": {
        "no-operators": ("the workflow has no operators", "`workflow.add_operator(facts)`"),
        "duplicate-id": ("two operators or nodes have the same id", "change one: `id: 4`"),
        "loop": (
            "a loop of a Flowise file has no counterpart here",
            "change what the message names",
        ),
        "cycle": (
            "operators, nodes or sub-jobs wait for each other, or a part contains itself",
            "remove one of the edges",
        ),
        "join": ("`join` has an unknown value", '`join="any"`, `"all"` or `"all_done"`'),
        "never-runs": (
            "the operator waits for operators that never run in the same run",
            '`join="all_done"` or `"any"`',
        ),
        "read-too-early": (
            "the operator reads the message of an operator that does not come before it",
            "`add_operator(check, previous_ops=[facts])`",
        ),
        "nested-in-itself": ("a workflow contains itself", "create a second workflow for the inner one"),
        "parameter": (
            "a parameter of a function is not named after a predecessor, or its annotation is unreadable or has another type",
            "name it after a predecessor, or annotate it with Job, Reasoner or RunContext",
        ),
        "unknown-name": (
            "a name in braces in an instruction is neither an operator before it nor an input of the job",
            "correct the name, add an edge or an input; for braces in the text, write `{{name}}`",
        ),
        "instruction": ("the function that writes an instruction does not return text", "`-> str`"),
        "awel-inputs": (
            "an AWEL operator with one input has several predecessors",
            "put a `JoinOperator` between them",
        ),
        "unknown-output": ("the declared output has no such field", "use one of the fields in the message"),
        "not-a-list": (
            "a map's input is not a list",
            '`Map("each", body, over="claims")`, with `{claims: [string]}` before it',
        ),
        "on-error": (
            "`on_error` of a map has an unknown value",
            '`on_error="keep"`, `"skip"` or `"fail"`',
        ),
        "fallback-port": (
            "the fallback has no port, so every branch would run",
            '`WorkflowMessage(…, ports=("refund",))`',
        ),
        "two-policies": (
            "the parameter `failure` of a node and the policy that the node is added with set the same value",
            "remove `failure.retries`, or `Policy(retry=…)`",
        ),
        "fallback-cycle": (
            "fallbacks lead back to the same operator or workflow",
            '`Policy(fallback="Ask a colleague.")` for one of them',
        ),
        "port-twice": ("the `output_schema` of an operator with ports has a field `port`", "rename the field"),
        "no-fingerprint": (
            "a cached operator has no fingerprint",
            "define the method `fingerprint()`, or set `Policy(cache=False)`",
        ),
        "listener": (
            "a listener is not a synchronous function of an event",
            "`def listener(event): …`, without `async`",
        ),
        "only": ("a value of `only` is not an event type", "`only=[events.OperatorFinished]`"),
        "under": ("a path contains other values than ids, or names no operator", '`under=["desk", "check"]`'),
    },
    "Policies and limits": {
        "retry": ("the value is neither a `Retry` nor a number of attempts", "`Policy(retry=Retry(attempts=5))`"),
        "timeout": ("the value is neither a `Timeout` nor a duration", "`Policy(timeout=Timeout(run=60))`"),
        "cache": ("the value is not a `Cache`, or its limits are invalid", "`Policy(cache=Cache(max_age=3600))`"),
        "fallback": ("the value cannot replace an operator", '`Policy(fallback="A colleague will answer.")`'),
        "on": ("a value of `on` is not an error class", "`Retry(on=(ModelError,))`"),
        "limits": ("a limit is not a whole number of at least 1", "`Limits(concurrency=4)`, or None for no limit"),
        "no-number": ("the value is not a number", "`Timeout(run=60)`, in seconds"),
        "no-count": ("the value is not a whole number", "`Retry(attempts=3)`"),
        "not-positive": ("the value is not more than 0", "`Budget(tokens=100_000)`"),
    },
    "Schemas of answers": {
        "json-schema": (
            "an `output_schema` is not a valid JSON Schema",
            "write an example instead: `{claims: [string]}`",
        ),
        "not-text": ("the text contains half of a UTF-16 pair", "remove it"),
        "unreadable": (
            "a text has the brackets of an output format, but is not one; or `operad check` cannot read a file",
            "`{claims: [string]}`, or a text that begins with a word",
        ),
        "no-type": (
            "a word of an output format is not a type, but stands in the place of one or resembles one",
            "`{why: string}`; `{kind: {enum: [a, b]}}`",
        ),
        "too-large": ("the schema has too many values or characters", "shorten it"),
        "too-deep": ("a schema, or nodes inside of nodes, are nested too deep", "use fewer levels"),
        "reference": (
            "a `$ref` has no target; or a template contains `{{#…#}}`",
            '`{"$ref": "#/$defs/claim"}` with `claim` under `$defs`; in a template, a name that `variables` declares',
        ),
        "pattern": ("a pattern is invalid, or may take unlimited time", "write it without look-around: `^[a-z]+$`"),
        "keyword": ("a keyword is not supported", "use `additionalProperties` or `items`"),
        "form": (
            "a model's split of a job has the wrong form",
            "the model is asked again; if that does not help, use a larger one",
        ),
    },
    "Jobs that a leader splits": {
        "empty": ("a split has no sub-job, a file no response, or a workflow no node that runs", "add at least one"),
        "too-many": ("there are more sub-jobs than allowed", "split the job into fewer parts"),
        "id": ("an id is invalid", 'a short text: `id: "1"`'),
        "no-goal": ("a sub-job has no goal", '`"goal": "Find the facts."`'),
        "unknown-expert": ("no expert has this name", "use a name under `experts`"),
        "unknown-dependency": (
            "a sub-job depends on a missing one",
            'an id of the same split: `"dependencies": ["facts"]`',
        ),
    },
    "Questions to a person": {
        "no-form": ("the text is not an answer schema", '`await interrupt("Pay?", "boolean")`, or a JSON Schema'),
        "unknown-question": ("there is no open question with this id", "use an id that `operad runs show ID` lists"),
        "wrong-answer": ("the answer does not fit the schema of the question", "`--answer pay=yes`"),
    },
    "Workflows of typed nodes": {
        "no-nodes": ("the workflow has no nodes", "add a `start` and an `end`"),
        "no-start": ("the workflow has no start", "add a node of type `start`"),
        "several-starts": ("the workflow has several starts", "keep one"),
        "no-end": ("the workflow has no end, or the named node is not an end", "add a node of type `end`"),
        "unknown-type": (
            "the node type is unknown",
            "`template-transform` instead of `template`; `operad nodes` lists them",
        ),
        "misshapen-id": ("the id is empty, or contains half a character", 'letters or digits: `"id": "4"`'),
        "misshapen-node": (
            "a node does not have the form of its format",
            '`{"id": "1", "type": "start", "param": {}}`',
        ),
        "misshapen-edge": ("an edge does not have the form of its format", '`["1", 0, "2"]`'),
        "edge": ("an entry of `edges` in Operad's YAML is not a mapping", "`{from: 1, to: 2}`"),
        "inside": ("a node inside a container also has the key `inside`", "remove `inside`"),
        "order": (
            "a node precedes a node that it refers to, or the order is not a list of numbers",
            "move it behind the nodes that it reads",
        ),
        "dangling-edge": ("an edge leads to or from a missing node", "correct the id, or remove the edge"),
        "port-out-of-range": ("the node has no such port", "0 to the number of cases; the last is ELSE"),
        "isolated": ("no edge leads to the node or from it", "connect it, or remove it"),
        "unreachable": ("no path leads from the start to the node", "add an edge to it"),
        "crosses-border": (
            "an edge or a reference crosses the border of a container",
            "let the edge end at the `iteration` itself",
        ),
        "edge-to-own-start": (
            "an edge leads from a container to its own start, which needs no edge",
            "remove the edge",
        ),
        "outside-body": ("an `output_selector` names a node that is not inside", '`["text", "3-2"]`'),
        "missing-param": ("a parameter is missing", 'add it: `"system": ""`'),
        "unknown-param": (
            "the node type has no such parameter",
            "`user` instead of `prompt`; `operad nodes llm` lists them",
        ),
        "param": (
            "a parameter has the wrong form or an invalid value",
            "`>` instead of `contains` for a number",
        ),
        "undefined-node": ("a reference names a missing node", "correct the id: `{{#1.text#}}`"),
        "undefined-variable": ("the node has no such variable", "`{{#1.review#}}` instead of `{{#1.reviews#}}`"),
        "file-part": (
            "code or a template reads a part that files do not have, or as an attribute in code",
            "`{{ paper.name }}` in a template, `paper['name']` in code; the issue lists the parts",
        ),
        "not-before": (
            "a reference names a node that does not run before this one",
            "add an edge from it to this node",
        ),
        "wrong-type": (
            "a variable has a type that cannot be used there",
            "read a file by a `document-extractor` first",
        ),
        "misshapen-reference": ("`{{#…#}}` contains other text than id, dot and variable", "`{{#1.text#}}`"),
        "code": ("the code is invalid, or has no `main`", "`def main(text): return {'words': 1}`"),
        "import": (
            "the code imports a module that the sandbox lacks",
            "do what the message says: allow the package in the services, or use a request node for requests",
        ),
        "template": ("the Jinja template is invalid, or includes another template", "`{{ name }}`, in one template"),
        "not-selected": (
            "`<node_selection>` differs from the types of the nodes",
            "name each type that is used, and no other",
        ),
        "lossy": (
            "a field of an imported file is not supported, so results may differ",
            "`operad run … --lossy` accepts the difference",
        ),
        "note": (
            "a field of an imported file is handled differently, or another format has no place for it; results are the same",
            "no fix is needed",
        ),
        "loss": (
            "the other format has no place for a part of the workflow, and results may differ",
            "`operad convert … --lossy` writes without it",
        ),
    },
    "Edits": {
        "unknown-operation": ("the operation is unknown", "`operad edit --schema` lists them"),
        "duplicate-edge": ("the edge exists already", "remove the operation"),
        "no-edge": ("there is no such edge, or several", "name the port: `disconnect 3 4 port=1`"),
        "no-branches": ("the node has no branches", "use an `if-else` or a `question-classifier`"),
        "no-path": ("the node has no parameter at the path", '`set 3 system "Be brief."`'),
        "no-text": (
            "the text to replace does not occur, or occurs several times",
            "copy it from the text in the message",
        ),
    },
    "ComfyUI": {
        "missing-file": ("the server has no such file", "upload it: `operad run painter.yaml --file photo.png`"),
        "illegal-param": ("the class has no such input", "use the name that the message suggests"),
        "value-not-in-options": ("the value is not one of the options", "use one that the message lists"),
        "value-out-of-range": ("the number is too small or too large", "`steps: 20`"),
        "wrong-value": ("the value has the wrong type", "a number, a text, a file or JSON, as the message states"),
        "no-output": ("no node is an output, so no node would run", "add a `SaveImage`"),
        "misshapen-link": ("a link does not have the form of its format", '`["4", 0]`'),
        "unconnected": ("no output depends on these nodes", "connect them, or remove them"),
        "unknown-node": (
            "the job names a node that the workflow does not have",
            "`--input 6.text=…`, with an id of the file",
        ),
        "unknown-input": ("the node has no such input", "`--input 3.seed=7`, with a name of the class"),
        "ambiguous-file": ("several files of the job have this name", "rename one of them"),
        "refused": (
            "the server rejects the workflow; other codes of servers are passed on unchanged",
            "correct the fault in its message",
        ),
        "disconnected": (
            "a part of the workflow is not linked to the rest (ComfyFlow's check)",
            "link it",
        ),
        "terminal-node": (
            "the result of a node is not used (ComfyFlow's check)",
            "link it with a node that ends the workflow",
        ),
        "terminal-output-node": (
            "results of an output node are not used (ComfyFlow's check)",
            "link them, or use another class",
        ),
        "more": ("there are more issues than listed", "correct the listed ones first"),
    },
    "Scores, tasks and data sets": {
        "dry-run": ("a dry run failed, took too long, or had no outputs", "correct the fault in the message"),
        "no-tag": ("a response lacks a tag", "`<workflow>{…}</workflow>`"),
        "missing-input": ("a workflow lacks an input that the task requires", "declare it in `start`"),
        "extra-input": (
            "a workflow has an input that the task does not name",
            "remove it, or read the value from a node",
        ),
        "missing-end": ("a workflow has no end with the required outputs", "add an `end` with the outputs of the task"),
        "wrong-outputs": ("an end has other outputs than the task", "rename them"),
        "missing-node": (
            "a workflow lacks a node type that the task requires",
            "use it, and name it in `<node_selection>`",
        ),
        "missing": ("a record of a data set lacks a key", "add it"),
        "unknown": ("a record has a name that the data set lacks", "correct the name"),
        "duplicate": ("a record occurs twice", "keep one"),
        "name": ("a file of responses has the wrong name", "`Task_1.txt`"),
        "item": ("an item of a file cannot be used", "correct the fault in the message"),
        "gold": ("a gold item cannot be used", "correct it, or remove it"),
        "no-gold": ("a prediction has no gold item", "pass the file that has it: `--gold gold/`"),
        "twice": ("two gold items or two predictions are the same", "keep one"),
        "file": ("a file of a task cannot be used", "correct its path, which is relative to the folder of the tasks"),
    },
}
"""Meaning and fix of each code, by group."""

ERRORS: Mapping[str, str] = {
    "OperadError": "Catch it to catch all errors of Operad.",
    "InvalidError": "Correct its `issues`; their codes are below.",
    "MissingDepsError": "Pass them: `flow.run(job, deps=…)`, also when a durable run is resumed.",
    "InputError": "Pass the file or the value that the message names.",
    "ArgumentError": "Correct the arguments that the message names. It is also a `ValueError`.",
    "NoModelError": "Pass a model to the workflow or the run, or set one in the environment.",
    "LossyError": "Read `losses`; accept them with `--lossy`, or `load_workflow(…, lossy=True)`.",
    "OperatorError": "Read its `__cause__`; add a `retry` or a `fallback` to the operator. `finished` holds the messages so far.",
    "OperatorTimeoutError": "Increase the limit, `timeout: {run: 120}`, or add a `retry`.",
    "FaultError": "Raise it in an operator or an evaluator; increase `max_rounds` if it ends a run.",
    "PortError": "Declare the port, or choose a declared one.",
    "SkippedError": "Add an operator for that port, or a tail that always runs.",
    "JobError": "Read its `verdict` or `__cause__`; improve the expert's instructions or its model.",
    "BudgetError": "Increase the budget; `finished` holds the messages so far.",
    "PausedError": "Answer its `questions` with `flow.resume(run_id, answers)`.",
    "ModelError": "Check address, key and model; if `transient` is true, a `retry` may help.",
    "PromptTooLongError": "Give the operator less, or use a model with a larger context.",
    "RequestError": "Change the request.",
    "FetchError": 'Check the address; allow a host of your own: `http: {allowed_hosts: ["localhost:8080"]}`.',
    "MaxTurnsError": "Give the operator more turns with `max_turns`, or say in its instruction when the work is done.",
    "AnswerError": "Simplify the task or the output format, or use a better model.",
    "SchemaMismatch": "The model is asked again with the errors; if that does not help, simplify the output format.",
    "FormError": "Write a type (`string`, `number`, `integer`, `boolean`, `any`), a choice, or a description in several words.",
    "ToolError": "Annotate the function with types that have a JSON Schema, or pass arguments that fit them.",
    "OtherError": "Read the description: it names the exception.",
    "MissingExtraError": "Install the package that the message names.",
    "UntrustedError": "Read what it can do, which the error lists; then `operad trust FILE`, or `load(file, trust=True)`.",
    "RefusedError": "Read the answer of the server; its status says whether the request was wrong.",
    "ReadonlyError": "In the studio: correct or restore the file, or convert it to a format that can be edited.",
    "NotKeptError": "In the studio: make the change in the file, for example as an alias stands before its anchor.",
    "StaleError": "In the studio: reload the file, and repeat the change.",
    "RunningLoopError": "`await` the asynchronous method: `aexecute` instead of `execute`.",
    "DeadlockError": "In a test on a fake clock: let a task set the event that all wait for.",
    "UnexpectedStepError": "In a test: add an answer to the script, or make fewer calls.",
    "LeftoverStepsError": "In a test: remove answers from the script, or make the missing calls.",
    "CodeError": "Correct the named line, or increase the limits with `CodeLimits`.",
    "TemplateError": "Correct the named line, or increase the limits with `TemplateLimits`.",
    "NodeError": "Check the value in the message, and the node that it comes from.",
    "ConditionError": "Use a comparison of the value's type: `>` for numbers, `contains` for texts and lists.",
    "MediaError": "Correct the part that the message shows, or make a smaller file.",
    "ComfyUIError": "Read the server's message, and correct the workflow.",
    "RenameError": "Rename it by hand.",
    "IncompleteError": "Repeat the command with the same `--output`; it continues.",
}
"""Fix of each error class."""
