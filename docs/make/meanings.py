"""Meanings and remedies of the codes of issues, for `docs/reference/errors.md`."""

from __future__ import annotations

from collections.abc import Mapping

Meaning = tuple[str, str]
"""Description of a fault, and an example of its remedy."""

MEANINGS: Mapping[str, Mapping[str, Meaning]] = {
    "Files that cannot be read": {
        "format": (
            "the file is not of the form that it should have",
            'add what is named: `{"nodes_info": [], "edges": []}`',
        ),
        "yaml": (
            "it is not YAML, or uses a part of it that is not read",
            "close the bracket at the line that is named",
        ),
        "json": ("a line is not JSON", 'write `{"id": "a"}` with double quotes, one object a line'),
        "depth": ("it is nested too deep", "move what is inside into parts of its own"),
        "size": ("it is larger than the maximum", "split it; or leave out what is not needed"),
        "shape": (
            "a mapping, a list or a text stands where something else must",
            "write `tools: [search]`, not `tools: search`",
        ),
        "tag": (
            "a YAML tag, or a value that YAML cannot read",
            "leave the tag out, as in `!!python/name:x`; quote dates that are none",
        ),
        "key": ("a key is not plain text, or is a merge key `<<`", "write the keys themselves instead of `<<: *base`"),
        "duplicate-key": ("a key stands twice", "keep one of the two lines"),
        "input": ("a file or an option cannot be used, for the reason that is given", "give the file that is named"),
        "path": ("a file of an archive leads out of it", "pack it again without `../` in its names"),
        "value": ("a value does not fit its key", "`max_rounds: 3` instead of `max_rounds: many`"),
        "unknown-key": ("there is no such key here", "`instruction:` instead of `instrution:`"),
        "missing-key": ("a key must be there", "add `instruction: Check each claim.`"),
        "host": (
            "prices are keyed by the host of an endpoint, and this is not a host",
            "`api.openai.com:` instead of `https://api.openai.com/v1:`",
        ),
        "target": ("a picture cannot be made as this", "ask for `svg`, `png` or `md`"),
    },
    "Configurations of experts": {
        "unknown-tool": ("no tool has this name", "write the name as under `tools`: `tools: [search]`"),
        "unknown-action": ("no action has this name", "write the name as under `actions`: `actions: [look up]`"),
        "unknown-operator": (
            "no operator has this name, or it was never added",
            "`workflow: [[facts, check]]` with both under `operators`; in Python, `add_operator(facts)`",
        ),
        "unknown-workflow": (
            "a `sub-workflow` node names a workflow that `services` does not",
            "`services: {workflows: {translate: translate.json}}`",
        ),
        "duplicate-name": ("two things have one name", "rename one: `name: check2`"),
        "class": (
            "the class cannot be imported, or is of the wrong kind",
            "`class: my_operators.Check`, a subclass of `Operator`",
        ),
        "params": (
            "the class cannot be made with these arguments",
            "give what its `__init__` takes: `params: {strict: true}`",
        ),
        "platform": (
            "`workflow_platform: DBGPT`, and dbgpt is not installed",
            "`pip install --no-deps 'dbgpt>=0.8.2,<0.9' cloudpickle cachetools`, or leave the key out",
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
            "an object that is given as knowledge base has no `retrieve(query)`",
            'give `Documents(["docs"])`',
        ),
        "insights": (
            "the insights cannot be kept as said",
            'in YAML `env: {insights: lessons.sqlite}`, in Python `Insights("lessons.sqlite")`',
        ),
        "no-experts": ("a leader has no experts", "add an expert under `experts`"),
        "port": (
            "a port stands where none can be",
            "`{operator: triage, port: refund}` after an operator with `ports: [refund]`; a number, or `else`, in a workflow file",
        ),
        "unknown-port": ("the operator has no such port", "declare it: `ports: [refund, complaint]`"),
    },
    "Workflows of operators": {
        "no-operators": ("there is nothing to run", "`workflow.add_operator(facts)`"),
        "duplicate-id": ("two have one id", "give one another: `id: 4`"),
        "cycle": ("operators, or sub-jobs, wait for each other", "remove one of the edges"),
        "join": ("`join` has an unknown value", '`join="any"`, `"all"` or `"all_done"`'),
        "never-runs": ("it waits for operators that never run in the same run", '`join="all_done"` or `"any"`'),
        "read-too-early": ("it reads what a later operator says", "`add_operator(check, previous_ops=[facts])`"),
        "nested-in-itself": ("a workflow contains itself", "make a second workflow for the inside"),
        "parameter": (
            "a function's parameter is not an operator before it, or its annotation cannot be read",
            "name it as an operator before it, or annotate it with Job, Reasoner or RunContext",
        ),
        "awel-inputs": (
            "an AWEL operator of one input comes after several operators",
            "put a `JoinOperator` between them",
        ),
        "unknown-output": ("the declared answer has no such field", "name one of the fields that the message lists"),
        "not-a-list": (
            "a map's input is not a list",
            '`Map("each", body, over="claims")`, with `{claims: [string]}` before it',
        ),
        "on-error": (
            "a map does not know what to do with an item that fails",
            '`on_error="keep"`, `"skip"` or `"fail"`',
        ),
        "fallback-port": (
            "the fallback has no port, so every branch would run",
            '`WorkflowMessage(…, ports=("refund",))`',
        ),
        "fallback-cycle": (
            "fallbacks lead back to the same operator or workflow",
            '`Policy(fallback="Ask a colleague.")` for one of them',
        ),
        "port-twice": ("its `output_schema` has a field with the name that says the way on", "rename the field"),
        "no-fingerprint": (
            "its messages are to be cached, but it has no fingerprint",
            "give it a method `fingerprint()`, or `Policy(cache=False)`",
        ),
        "listener": ("a listener is not a plain function", "`def listener(event): …`, without `async`"),
        "only": ("it is not a type of event", "`only=[events.OperatorFinished]`"),
        "under": ("a path has something other than ids", '`under=["desk", "check"]`'),
    },
    "Policies and limits": {
        "retry": ("it is no `Retry`", "`Policy(retry=Retry(attempts=5))`"),
        "timeout": ("it is no `Timeout`", "`Policy(timeout=Timeout(run=60))`"),
        "cache": ("it is no `Cache`, or has no sensible bounds", "`Policy(cache=Cache(max_age=3600))`"),
        "fallback": ("it cannot replace an operator", '`Policy(fallback="A colleague will answer.")`'),
        "on": ("it is not a type of error", "`Retry(on=(ModelError,))`"),
        "limits": ("a limit is below 1", "`Limits(concurrency=4)`, or None for none"),
        "no-number": ("it is not a number", "`Timeout(run=60)`, in seconds"),
        "no-count": ("it is not a whole number", "`Retry(attempts=3)`"),
        "not-positive": ("it must be more than 0", "`Budget(tokens=100_000)`"),
    },
    "Schemas of answers": {
        "json-schema": (
            "an `output_schema` is not a valid JSON Schema",
            "write an example instead: `{claims: [string]}`",
        ),
        "not-text": ("half of a UTF-16 pair in a form", "remove it"),
        "unreadable": ("it begins as a form, but cannot be read as one", "`{claims: [string]}`; or begin with words"),
        "no-type": (
            "a word of a form is nearly a type, or a type elsewhere",
            "`{why: string}`; `{kind: {enum: [a, b]}}`",
        ),
        "too-large": ("it has too many values or characters", "let it hold less"),
        "too-deep": ("it is nested too deep; so may nodes inside of nodes be", "let it hold less"),
        "reference": (
            "a `$ref` leads nowhere; or a template holds `{{#…#}}`",
            '`{"$ref": "#/$defs/claim"}` with `claim` in it; in a template a name that `variables` declares',
        ),
        "pattern": ("a pattern may take for ever, or cannot be used", "write it without look-around: `^[a-z]+$`"),
        "keyword": ("a keyword that is not checked", "use `additionalProperties` or `items`"),
        "form": (
            "a model's split of a job is not as asked",
            "it is asked again; where that does not help, use a larger model",
        ),
    },
    "Jobs that a leader splits": {
        "empty": ("nothing is there: no sub-job, no response, no node that runs", "name at least one"),
        "too-many": ("there are more sub-jobs than may be", "split more coarsely"),
        "id": ("an id is not as ids are", 'a short text: `id: "1"`'),
        "no-goal": ("a sub-job has no goal", '`"goal": "Find the facts."`'),
        "unknown-expert": ("no expert has this name", "name one as under `experts`"),
        "unknown-dependency": (
            "it waits for a sub-job that is not there",
            'an id of the same split: `"dependencies": ["facts"]`',
        ),
    },
    "Questions to a person": {
        "no-form": ("the text is not a form of an answer", '`await interrupt("Pay?", "boolean")`, or a JSON Schema'),
        "unknown-question": ("there is no open question with this id", "take an id that `operad runs show ID` lists"),
        "wrong-answer": ("the answer is not of the form that is asked for", "`--answer pay=yes`"),
    },
    "Workflows of typed nodes": {
        "no-nodes": ("there is no node", "add a `start` and an `end`"),
        "no-start": ("nothing begins it", "add a node of type `start`"),
        "several-starts": ("two nodes begin it", "take one out"),
        "no-end": ("it has no end, or the named node is not an end", "add a node of type `end`"),
        "unknown-type": (
            "there is no such node type",
            "`template-transform` instead of `template`; `operad nodes` lists them",
        ),
        "misshapen-id": ("the id is empty, or half a character", 'letters or digits: `"id": "4"`'),
        "misshapen-node": ("a node is not of the form of its format", '`{"id": "1", "type": "start", "param": {}}`'),
        "misshapen-edge": ("an edge is not of the form of its format", '`["1", 0, "2"]`'),
        "edge": ("an edge of Operad's YAML has neither end", "`{from: 1, to: 2}`"),
        "inside": ("a node says inside of what it runs, and stands there already", "leave `inside` out"),
        "order": (
            "it stands before a node that it refers to, or the order is not a list of numbers",
            "put it after what it reads",
        ),
        "dangling-edge": ("an edge to or from a node that is not there", "correct the id, or take the edge out"),
        "port-out-of-range": ("the node has no such port", "0 to the number of cases; the last is ELSE"),
        "isolated": ("no edge leads to it or from it", "connect it, or take it out"),
        "unreachable": ("no path leads to it from the start", "add the edge that leads to it"),
        "crosses-border": (
            "an edge or a reference between inside and outside",
            "end the edge at the `iteration` itself",
        ),
        "edge-to-own-start": (
            "an edge from a node to what begins inside of it, which begins by itself",
            "leave the edge out",
        ),
        "outside-body": ("an `output_selector` names a node that is not inside", '`["text", "3-2"]`'),
        "missing-param": ("a parameter is missing", 'add it: `"system": ""`'),
        "unknown-param": (
            "there is no parameter of that name",
            "`user` instead of `prompt`; `operad nodes llm` lists them",
        ),
        "param": (
            "a parameter has another form, or its value makes no sense",
            "`>` instead of `contains` for a number",
        ),
        "undefined-node": ("a reference to a node that is not there", "correct the id: `{{#1.text#}}`"),
        "undefined-variable": ("the node has no such variable", "`{{#1.review#}}` instead of `{{#1.reviews#}}`"),
        "not-before": ("a reference to a node that does not run before", "add an edge that leads from it to here"),
        "wrong-type": (
            "a variable is of a type that cannot be used there",
            "read a file by a `document-extractor` first",
        ),
        "misshapen-reference": ("`{{#…#}}` with something else inside than id, dot and variable", "`{{#1.text#}}`"),
        "code": ("Python that cannot be read, or that has no `main`", "`def main(text): return {'words': 1}`"),
        "import": ("a module that the sandbox lacks", "do it with the modules that the message lists"),
        "template": ("Jinja that cannot be read, or that needs other templates", "`{{ name }}`; write all in one"),
        "not-selected": (
            "`<node_selection>` and the nodes are not the same",
            "name each type that is used, and no other",
        ),
        "lossy": (
            "a field of an imported file that is not done here, so that results may be others",
            "`operad run … --lossy` runs it all the same",
        ),
        "note": (
            "a field of an imported file that is done otherwise, or that another format has no place for, without effect on "
            "results",
            "nothing need be done",
        ),
        "loss": (
            "the other format has no place for this, and results may differ without it",
            "`operad convert … --lossy` writes without it",
        ),
    },
    "Edits": {
        "unknown-operation": ("there is no such operation", "`operad edit --schema` lists them"),
        "not-allowed": ("this node may not be changed here", "change one of those that the message names"),
        "duplicate-edge": ("the edge is there already", "leave the operation out"),
        "no-edge": ("no edge leads there, or several do", "say which port: `disconnect 3 4 port=1`"),
        "no-branches": ("the node has no branches", "name an `if-else` or a `question-classifier`"),
        "no-path": ("the path leads to nothing in the node's parameters", '`set 3 system "Be brief."`'),
        "no-text": (
            "the text that is to be replaced does not stand there, or not once",
            "copy it from what the message shows",
        ),
    },
    "ComfyUI": {
        "missing-file": ("the server has no such file", "upload it: `operad run painter.yaml --file photo.png`"),
        "illegal-param": ("the class has no such input", "take the name that the message suggests"),
        "value-not-in-options": ("the value is not one of the options", "take one that the message lists"),
        "value-out-of-range": ("the number is too small or too large", "`steps: 20`"),
        "wrong-value": ("the value is of another kind", "a number, a text, a file or JSON, as the message says"),
        "no-output": ("no node is an output, and so nothing would run", "add a `SaveImage`"),
        "misshapen-link": ("a link is not of the form of its format", '`["4", 0]`'),
        "unconnected": ("nothing that is saved or shown comes of these nodes", "connect them, or take them out"),
        "unknown-node": (
            "the job names a node that the workflow does not have",
            "`--input 6.text=…`, with an id of the file",
        ),
        "unknown-input": ("the node has no such input", "`--input 3.seed=7`, with a name of the class"),
        "ambiguous-file": ("several files of the job have this name", "rename one of them"),
        "refused": (
            "the server refuses the workflow; other codes of servers are passed on as they are",
            "mend what its message says",
        ),
        "disconnected": (
            "a part of the workflow is linked with nothing else (ComfyFlow's check)",
            "link what belongs to it",
        ),
        "terminal-node": (
            "a node whose result is not used (ComfyFlow's check)",
            "link it with a node that ends the workflow",
        ),
        "terminal-output-node": (
            "an output node with results that are not used (ComfyFlow's check)",
            "link it, or use another",
        ),
        "more": ("there are more issues than are listed", "mend those that are"),
    },
    "Scores, tasks and data sets": {
        "dry-run": ("a dry run failed, took too long, or had no outputs", "mend what the message says"),
        "no-tag": ("a response lacks a tag", "`<workflow>{…}</workflow>`"),
        "missing-input": ("a workflow lacks an input that the task asks for", "declare it in `start`"),
        "extra-input": ("it has an input that was not asked for", "take it out, or read it from a node"),
        "missing-end": ("it has no end of the right form", "add an `end` that names what the task asks for"),
        "wrong-outputs": ("its end names other outputs than the task", "rename them"),
        "missing-node": ("it lacks a type that the task needs", "use it, and name it in `<node_selection>`"),
        "missing": ("a record of a data set lacks a key", "add it"),
        "unknown": ("a record names what the data set does not have", "correct the name"),
        "duplicate": ("a record is there twice", "keep one"),
        "name": ("a file of responses is not called as it must be", "`Task_1.txt`"),
        "item": ("an item of a file cannot be used", "mend what the message says"),
        "gold": ("a gold item cannot be used", "mend it, or leave it out"),
        "no-gold": ("there is no gold item for a prediction", "give the file that has it: `--gold gold/`"),
        "twice": ("two gold items, or two predictions, are one and the same", "keep one"),
        "file": ("a file of a task cannot be used", "correct its path; it is seen from the folder of the tasks"),
    },
}
"""Per group and code, what it means and what mends it."""

ERRORS: Mapping[str, str] = {
    "OperadError": "Catch it to catch all errors of Operad.",
    "InvalidError": "Correct its `issues`; their codes are below.",
    "MissingDepsError": "Pass them: `flow.run(job, deps=…)`, also when a durable run is resumed.",
    "InputError": "Pass the file or the value that the message names.",
    "ArgumentError": "Correct the arguments that the message names. It is also a `ValueError`.",
    "NoModelError": "Give a model to the workflow or to the run, or set one in the environment.",
    "LossyError": "Read `losses`; accept them with `--lossy`, or `load_workflow(…, lossy=True)`.",
    "OperatorError": "Read its `__cause__`; give the operator a `retry` or a `fallback`. `finished` holds the messages so far.",
    "OperatorTimeoutError": "Increase the limit, `timeout: {run: 120}`, or add a `retry`.",
    "FaultError": "Raise it in an operator or an evaluator; increase `max_rounds` if it ends a run.",
    "PortError": "Declare the port, or choose a declared one.",
    "SkippedError": "Add an operator for that port, or a tail that always runs.",
    "JobError": "Read its `verdict` or `__cause__`; improve the expert's instructions or its model.",
    "BudgetError": "Increase the budget; `finished` holds the messages so far.",
    "PausedError": "Answer its `questions` with `flow.resume(run_id, answers)`.",
    "ModelError": "Check address, key and model; if `transient` is true, a `retry` may help.",
    "RequestError": "Shorten or change the request.",
    "FetchError": 'Check the address; allow a host of your own: `http: {allowed_hosts: ["localhost:8080"]}`.',
    "AnswerError": "Simplify the task or the output format, or use a better model.",
    "SchemaMismatch": "The model is asked again with the errors; if that does not help, simplify the output format.",
    "FormError": "Write a type (`string`, `number`, `integer`, `boolean`, `any`), a choice, or a description in several words.",
    "ToolError": "Annotate the function with types that have a JSON Schema, or pass arguments that fit them.",
    "MissingExtraError": "Install the package that the message names.",
    "UntrustedError": "Read the code that it names; then `operad trust FILE`, or `load(file, trust=True)`.",
    "RefusedError": "Read the answer of the server; its status says whether the request was wrong.",
    "ReadonlyError": "In the studio: correct or restore the file, or convert it to a format that can be edited.",
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
"""Per error, what to do."""
