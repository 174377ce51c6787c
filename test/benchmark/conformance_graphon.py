# pyright: reportMissingImports=false
"""Run Dify files in Dify's own engine, in a process and an environment that `conformance.py` starts.

Reads a line of JSON per run, ``{"file", "inputs", "pick", "turns", "roles"}``, and writes one, ``{"outputs", "ran",
"error"}``. Models are scripted as in `conformance.py`; code is sent to its sandbox, whose address is the first argument.

Dify's server adds rules to its engine. Those that decide on a result are applied here, too: see `server_rules`.
"""

import json
import sys
import urllib.request
from decimal import Decimal

from graphon.dsl import loads
from graphon.dsl.node_factory import SlimDslNodeFactory
from graphon.engine.container_handler.builtin.iteration import IterationContainerHandler
from graphon.model_runtime.entities.common_entities import I18nObject
from graphon.model_runtime.entities.llm_entities import (
    LLMResult,
    LLMResultChunk,
    LLMResultChunkDelta,
    LLMResultWithStructuredOutput,
    LLMUsage,
)
from graphon.model_runtime.entities.message_entities import AssistantPromptMessage, UserPromptMessage
from graphon.model_runtime.entities.model_entities import AIModelEntity, FetchFrom, ModelPropertyKey, ModelType
from graphon.nodes.code.code_node import CodeNode
from graphon.nodes.code.entities import CodeNodeData
from graphon.nodes.code.limits import CodeNodeLimits
from jinja2 import ChainableUndefined, Environment

PICK = {"number": 0}
RUN = {"turns": (), "roles": False, "failed": {}}
"""State of the current run: the conversation before it, whether answers name roles, and failures by prompt."""

VALUES = {
    "string": lambda name: f"<{name}>",
    "number": lambda name: 7,
    "boolean": lambda name: True,
    "array[string]": lambda name: [f"<{name}> 1", f"<{name}> 2"],
    "array[number]": lambda name: [1, 2, 3],
    "array[boolean]": lambda name: [True, False],
    "array[object]": lambda name: [{"name": f"<{name}>"}],
}


class History:
    """Conversation before a run."""

    def get_history_prompt_messages(self, max_token_limit=2000, message_limit=None):
        kinds = {"user": UserPromptMessage, "assistant": AssistantPromptMessage}
        turns = RUN["turns"] if message_limit is None else RUN["turns"][len(RUN["turns"]) - 2 * message_limit :]
        return [kinds[role](content=text) for role, text in turns]


class Jinja:
    """Templates as in Dify's sandbox."""

    def render_template(self, template, variables):
        return Environment(undefined=ChainableUndefined).from_string(template).render(**variables)  # noqa: S701


class Scripted:
    """Model that repeats its prompt."""

    stop = None
    provider = model_name = "scripted"

    def __init__(self, data):
        self.data, self.parameters = data, {}

    def get_model_schema(self):
        return AIModelEntity(
            model="scripted",
            label=I18nObject(en_US="scripted"),
            model_type=ModelType.LLM,
            fetch_from=FetchFrom.PREDEFINED_MODEL,
            model_properties={ModelPropertyKey.MODE: "chat", ModelPropertyKey.CONTEXT_SIZE: 1_000_000},
        )

    def get_llm_num_tokens(self, prompt_messages):
        return 1

    def is_structured_output_parse_error(self, error):
        return False

    def invoke_llm(self, *, prompt_messages, model_parameters, tools, stop, stream):
        message = AssistantPromptMessage(content=self.answer(prompt_messages), tool_calls=[])
        usage = LLMUsage.empty_usage()
        usage.total_price = Decimal(0)
        if not stream:
            return LLMResult(model="scripted", message=message, usage=usage)
        delta = LLMResultChunkDelta(index=0, message=message, usage=usage, finish_reason="stop")
        return iter([LLMResultChunk(model="scripted", delta=delta)])

    def invoke_llm_with_structured_output(self, *, prompt_messages, json_schema, model_parameters, stop, stream):
        value = plausible(json_schema)
        message = AssistantPromptMessage(content=json.dumps(value), tool_calls=[])
        usage = LLMUsage.empty_usage()
        usage.total_price = Decimal(0)
        self.answer(prompt_messages)
        return LLMResultWithStructuredOutput(model="scripted", message=message, usage=usage, structured_output=value)

    def answer(self, messages):
        text = "".join(message.get_text_content() for message in messages)
        if "FAIL" in text:
            raise RuntimeError("the model fails")
        if "FLAKY" in text and (failed := RUN["failed"].get(text, 0)) < 2:
            RUN["failed"][text] = failed + 1
            raise RuntimeError("the model fails for now")
        if self.data["type"] == "question-classifier":
            classes = self.data["classes"]
            chosen = classes[PICK["number"] % len(classes)]
            return json.dumps({"category_id": chosen["id"], "category_name": chosen["name"]})
        if self.data["type"] == "parameter-extractor":
            return json.dumps({each["name"]: VALUES[each["type"]](each["name"]) for each in self.data["parameters"]})
        if RUN["roles"]:
            return roles([(str(message.role.value), message.get_text_content()) for message in messages])
        said = {"system": "", "user": ""}
        for message in messages:
            said["system" if message.role == "system" else "user"] += message.get_text_content()
        system, user = (said["system"], said["user"]) if said["user"].strip() else ("", said["system"])
        return f"{system}|{user}"


class Sandbox:
    """Client of the sandbox of `conformance.py`."""

    def execute(self, *, language, code, inputs):
        inputs = {name: getattr(value, "to_object", lambda value=value: value)() for name, value in inputs.items()}
        body = json.dumps({"code": code, "inputs": inputs}).encode()
        request = urllib.request.Request(sys.argv[1], body, {"Content-Type": "application/json"})  # noqa: S310
        with urllib.request.urlopen(request) as reply:  # noqa: S310 - this machine's
            said = json.load(reply)
        if "error" in said:
            raise RuntimeError(said["error"])
        return said["result"]

    def is_execution_error(self, error):
        return isinstance(error, RuntimeError)


def plausible(schema):
    """Return a value that fits a schema, as in `conformance.py`."""
    if "enum" in schema:
        return schema["enum"][0]
    match schema.get("type"):
        case "object":
            return {name: plausible(each) for name, each in schema.get("properties", {}).items()}
        case "array":
            return [plausible(schema.get("items", {}))]
        case "number" | "integer":
            return 7
        case "boolean":
            return True
        case _:
            return "text"


def roles(said):
    """Return messages with their roles; the system messages are joined into one, the first."""
    system = "\n\n".join(text for role, text in said if role == "system")
    rest = [f"{role}: {text}" for role, text in said if role != "system"]
    return "\n".join([f"system: {system}", *rest] if system and rest else rest or [f"user: {system}"])


def llm_node(self, request):
    node = make_llm_node(self, request)
    node._memory = History()
    node._jinja2_template_renderer = Jinja()
    return node


def template_node(self, request):
    node = make_template_node(self, request)
    node._jinja2_template_renderer = Jinja()
    return node


def scripted_model(self, *, node_id, data, node_type_label):
    return dict(data), Scripted(data)


def code_node(self, request):
    limits = CodeNodeLimits(
        max_string_length=400_000,
        max_number=2**63 - 1,
        min_number=-(2**63 - 1),
        max_precision=20,
        max_depth=5,
        max_number_array_length=1000,
        max_string_array_length=30,
        max_object_array_length=30,
    )
    return CodeNode(
        node_id=request.node_id,
        data=CodeNodeData.model_validate(request.data_payload),
        init_params=self.init_params,
        runtime_state=self.runtime_state,
        code_executor=Sandbox(),
        code_limits=limits,
    )


def run(task):
    PICK["number"] = task["pick"]
    RUN.update(turns=task.get("turns", ()), roles=task.get("roles", False), failed={})
    outputs, ran, error, answers = {}, {}, "", []
    try:
        for event in loads(task["file"], start_inputs=task["inputs"]).run():
            kind = type(event).__name__
            if kind in ("NodeRunSucceededEvent", "NodeRunExceptionEvent"):
                ran[event.node_id] = ran.get(event.node_id, 0) + 1
                if event.node_type == "answer":
                    answers.append(event.node_run_result.outputs["answer"])
            elif kind in ("GraphRunSucceededEvent", "GraphRunPartialSucceededEvent"):
                outputs = dict(event.outputs)
            elif kind == "GraphRunFailedEvent":
                error = event.error
    except Exception as failure:  # noqa: BLE001 - whatever it is, it is the result of this run
        error = f"{type(failure).__name__}: {failure}"
    if answers and task.get("roles"):
        outputs["answer"] = "".join(
            answers
        )  # in the order of the stream; the engine keeps the last item's of iterations
    return {"outputs": outputs, "ran": ran, "error": error}


def server_rules():
    """Apply the rules of Dify's server: an item of an iteration gives the variables of the conversation back."""
    complete = IterationContainerHandler._complete_ready_iteration_frame

    def complete_and_give_back(self, *, frame, frame_state):
        around = self._frame_registry[self._iteration_run(frame_state.parent_invocation_id).frame_id]
        for name, variable in frame.state.variable_pool.variable_dictionary["conversation"].items():
            around.state.variable_pool.add(("conversation", name), variable)
        complete(self, frame=frame, frame_state=frame_state)

    IterationContainerHandler._complete_ready_iteration_frame = complete_and_give_back


server_rules()
SlimDslNodeFactory._create_slim_llm_runtime = scripted_model
make_llm_node = SlimDslNodeFactory._create_llm_node
make_template_node = SlimDslNodeFactory._create_template_transform_node
SlimDslNodeFactory.NODE_BUILDERS = {
    **SlimDslNodeFactory.NODE_BUILDERS,
    "code": code_node,
    "llm": llm_node,
    "template-transform": template_node,
}
for line in sys.stdin:
    print(json.dumps(run(json.loads(line)), default=str), flush=True)
