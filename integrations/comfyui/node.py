"""Node comfyui: a workflow of image, video and sound models, run on a ComfyUI server."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, cast

from pydantic import Field, JsonValue, field_validator

from operad.integrations.comfyui.prompt import assign_values, issues_of, unknown_place
from operad.integrations.comfyui.server import ComfyUIServer
from operad.integrations.comfyui.work import ComfyUIWork, Made, run_comfyui
from operad.operators.node import ADVANCED, Fault, NodeCall, NodeError, NodeOperator, NodeParams, NodeResult, TypeOf
from operad.operators.nodes.http import named_lines
from operad.operators.variables import Selector, Text, VariableType, plain
from operad.runtime.values.errors import InputError, InvalidError
from operad.runtime.values.file import FileDescriptor
from operad.runtime.values.text import whole

T = VariableType


class ComfyUIParams(NodeParams):
    """A server, a workflow, and values for its inputs."""

    server: str = Field(
        description="The server's address, such as http://127.0.0.1:8188; one that is not public must be allowed."
    )
    workflow: dict[str, JsonValue] = Field(
        description="The workflow as ComfyUI exports it for the API: {node id: {class_type, inputs}}."
    )
    inputs: dict[str, Annotated[Selector | Text | JsonValue, Field(union_mode="left_to_right")]] = Field(
        default_factory=dict[str, Any],
        description='Values for inputs of its nodes, by "node id.input": [variable, node id], also of a file, which is '
        "uploaded; a text with {{#id.variable#}}; or a value itself. A variable without a value changes nothing.",
    )
    headers: Annotated[Text, ADVANCED] = Field(
        default=Text(), description="Headers, one a line, name: value; variables as {{#id.variable#}}."
    )
    token_env: Annotated[str, ADVANCED] = Field(
        default="",
        pattern=r"^(COMFYUI_[A-Z0-9_]+)?$",
        description="The environment variable that holds a token, COMFYUI_TOKEN or another COMFYUI_…; it is sent as "
        "Authorization: Bearer, only to a server that is allowed by name.",
    )
    timeout: float = Field(
        default=600.0, gt=0, le=86_400, description="Seconds for all of it, the wait in the server's queue among it."
    )

    @field_validator("server")
    @classmethod
    def _is_address(cls, server: str) -> str:
        try:
            return ComfyUIServer(server).url
        except InputError as error:
            raise ValueError(str(error)) from error


class ComfyUINode(NodeOperator[ComfyUIParams]):
    """Runs a workflow of image, video or sound models on a ComfyUI server, and fetches the files that it makes."""

    type = "comfyui"
    params_type = ComfyUIParams
    hint = "Runs an exported ComfyUI workflow; inputs set inputs of its nodes by node.input, files are uploaded."
    gives = "files (array[file]): the images, videos and sounds; text (string): its texts, one a line"
    example = {
        "server": "http://127.0.0.1:8188",
        "workflow": {
            "1": {"class_type": "LoadImage", "inputs": {"image": "fig.png"}},
            "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "fig"}},
        },
        "inputs": {"1.image": ["picture", "1"], "2.filename_prefix": "large {{#1.name#}}"},
    }

    def outputs(self, type_of: TypeOf) -> Mapping[str, VariableType]:
        """Return the types of its outputs."""
        return {"files": T.ARRAY_FILE, "text": T.STRING}

    @property
    def unknown_outputs(self) -> Sequence[str]:
        """Output with the texts of the server."""
        return ("text",)

    def faults(self, type_of: TypeOf) -> Iterator[Fault]:
        """Yield the faults of the workflow, and inputs that it does not have."""
        issues = list(issues_of(self.params.workflow))
        for issue in issues:
            yield Fault(f"workflow.{issue.where}" if issue.where else "workflow", issue.message, issue.code)
        for place in self.params.inputs if not issues else ():
            if issue := unknown_place(self.params.workflow, place):
                yield Fault(f"inputs.{place}", issue.message, issue.code)

    async def compute(self, call: NodeCall) -> NodeResult:
        """Run the workflow, and return its files and texts."""
        given = {place: self._value(place, value, call) for place, value in self.params.inputs.items()}
        values, issues = assign_values(
            self.params.workflow, {place: value for place, value in given.items() if value is not None}
        )
        if issues := [*issues_of(self.params.workflow), *issues]:
            raise InvalidError(f"{self._who}: the inputs do not fit the workflow", issues)
        server = ComfyUIServer(
            self.params.server,
            headers=dict(named_lines(call.text(self.params.headers))),
            token=self._token(),
            guard=self.services.guard,
        )
        work = ComfyUIWork(self.params.workflow, values, self.services.write, self._who, self.params.timeout)
        made: Made = await self.services.outside.get("comfyui", run_comfyui)(server, work)
        files, texts = made
        text = whole("\n".join(texts))
        return NodeResult({"files": files, "text": text}, text=text or "\n".join(str(file.path) for file in files))

    def _value(self, place: str, declared: Any, call: NodeCall) -> Any:
        """Return the value for an input: a file, a text, or a JSON value.

        Raises:
            NodeError: The variable has several files.
        """
        if isinstance(declared, Text):
            return call.text(declared)
        if not isinstance(declared, Selector):
            return declared
        value = call.get(declared)
        files: Sequence[Any] = cast("Sequence[Any]", value) if isinstance(value, list | tuple) else []
        if not any(isinstance(each, FileDescriptor) for each in files):
            return value if isinstance(value, FileDescriptor) else plain(value)
        if len(files) > 1:
            raise NodeError(
                f"{self._who}: inputs.{place}: variable {str(declared)!r} has {len(files)} files, and an input takes "
                "one; choose one with a list-operator"
            )
        return files[0]

    def _token(self) -> str:
        """Return the token from the environment; it is only sent to servers that the user allows, not to any of a file.

        Raises:
            InputError: The server is not allowed by name, or the variable is not set.
        """
        name = self.params.token_env
        if not name:
            return ""
        host, port = ComfyUIServer(self.params.server).place
        if not self.services.guard.allows(host, port):
            raise InputError(
                f"{self._who}: the token of {name} is sent only to a server that is allowed by name: add {host}:{port} to "
                "`http: allowed_hosts` of the services, or to Guard(allowed_hosts=…)"
            )
        token = os.environ.get(name, "").strip()
        if not token:
            raise InputError(f"{self._who}: the environment variable {name} is not set; it is to hold the token")
        return token
