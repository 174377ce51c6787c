"""Nodes for files: document-extractor, markdown-exporter, mermaid-converter, tts, text2image, echarts."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, cast

from pydantic import Field

from operad.operators.media.documents import read_document
from operad.operators.media.echarts import echarts_option
from operad.operators.media.markdown import MarkdownTarget, export_markdown
from operad.operators.media.mermaid import render_mermaid
from operad.operators.media.speech import speak
from operad.operators.node import NodeCall, NodeError, NodeOperator, NodeParams, NodeResult, TypeOf
from operad.operators.variables import FILES, Accepts, Selector, Text, Values, VariableType, short_json, type_of
from operad.runtime.values.errors import InputError
from operad.runtime.values.file import FileDescriptor, suffix_of
from operad.runtime.values.function_threads import in_function_thread

T = VariableType


class ExtractorParams(NodeParams):
    """Files to read."""

    variable_selector: Annotated[Selector, Accepts(FILES)] = Field(description="The file or the files.")


class DocumentExtractor(NodeOperator[ExtractorParams]):
    """Reads the text of a document, or of several: text in any encoding, Word, Excel, PowerPoint, PDF, HTML, CSV and such."""

    type = "document-extractor"
    params_type = ExtractorParams
    hint = "Word, Excel, PowerPoint, PDF, HTML, CSV, text."
    gives = "text (string; of array[file]: array[string])"
    example = {"variable_selector": ["paper", "1"]}

    def outputs(self, type_of: TypeOf) -> Mapping[str, VariableType]:
        """Return the type of the text, or of the list of texts."""
        kind = type_of(self.params.variable_selector)
        return {"text": T.ANY if kind is T.ANY else T.ARRAY_STRING if kind.item else T.STRING}

    async def compute(self, call: NodeCall) -> Values:
        """Read the file, or each file of a list."""
        value = call.get(self.params.variable_selector)
        if value is None:
            return {"text": None}
        if isinstance(value, list | tuple):
            return {"text": [await self._read(each) for each in cast("Sequence[Any]", value)]}
        return {"text": await self._read(value)}

    async def _read(self, file: Any) -> str:
        if not isinstance(file, FileDescriptor):
            name = str(self.params.variable_selector)
            raise NodeError(
                f"{self._who}: variable {name!r} is {type_of(file)}, and a file is needed: {short_json(file)}"
            )
        return await in_function_thread(self._who, read_document, file)


class MakesFiles(NodeOperator[Any]):
    """Makes files."""

    gives = "files (array[file])"

    def outputs(self, type_of: TypeOf) -> Mapping[str, VariableType]:
        """Return the type of the files."""
        return {"files": T.ARRAY_FILE}

    def keep(self, *made: tuple[bytes, str]) -> NodeResult:
        """Write files, given as content and suffix, and return them as the result."""
        files = [self.services.write(f"{self.type}-{self.get_id()}", suffix, data) for data, suffix in made]
        return NodeResult({"files": files}, text=", ".join(file.name for file in files))


class MarkdownParams(NodeParams):
    """Markdown and what to make of it."""

    target_type: MarkdownTarget = Field(
        description="Type of the file; xlsx holds the tables of the Markdown, a sheet for each."
    )
    md_text: Text = Field(description="The Markdown; variables as {{#id.variable#}}.")


class MarkdownExporter(MakesFiles):
    """Makes a file from Markdown: Word, PowerPoint, PDF, an image, a web page, Markdown, or Excel of its tables."""

    type = "markdown-exporter"
    params_type = MarkdownParams
    hint = "xlsx holds the tables of the Markdown."
    example = {"target_type": "docx", "md_text": "{{#3.text#}}"}

    params: MarkdownParams

    async def compute(self, call: NodeCall) -> NodeResult:
        """Convert the Markdown."""
        target = self.params.target_type
        data = await export_markdown(call.text(self.params.md_text), target)
        return self.keep((data, f".{target}"))


class MermaidParams(NodeParams):
    """A diagram."""

    mermaid_code: Text = Field(description="The diagram in Mermaid; variables as {{#id.variable#}}.")


class MermaidConverter(MakesFiles):
    """Draws a Mermaid diagram: a PNG file."""

    type = "mermaid-converter"
    params_type = MermaidParams
    hint = "PNG."
    example = {"mermaid_code": "{{#2.text#}}"}

    params: MermaidParams

    async def compute(self, call: NodeCall) -> NodeResult:
        """Draw the diagram."""
        data = await asyncio.to_thread(render_mermaid, call.text(self.params.mermaid_code), "png")
        return self.keep((data, ".png"))


class SpeechParams(NodeParams):
    """A text."""

    text: Text = Field(description="What to read aloud; variables as {{#id.variable#}}.")


class TextToSpeech(MakesFiles):
    """Reads a text aloud: a sound file. Without an endpoint for speech, a simple voice of this machine does it."""

    type = "tts"
    params_type = SpeechParams
    hint = "Sound of the text."
    example = {"text": "{{#2.text#}}"}

    params: SpeechParams

    async def compute(self, call: NodeCall) -> NodeResult:
        """Convert the text to speech, by the endpoint of the services or the voice of this machine."""
        text = call.text(self.params.text)
        if self.services.speech is not None:
            data, mime_type = await self.services.speech.speak(text)
            return self.keep((data, suffix_of(mime_type)))
        return self.keep((await speak(text), ".wav"))


class ImageParams(NodeParams):
    """Description of an image."""

    prompt: Text = Field(description="What the image shows; variables as {{#id.variable#}}.")


class TextToImage(MakesFiles):
    """Makes an image from a text with a model."""

    type = "text2image"
    params_type = ImageParams
    hint = "Image by a model."
    example = {"prompt": "A lighthouse at dusk, in ink: {{#2.text#}}"}

    params: ImageParams

    async def compute(self, call: NodeCall) -> NodeResult:
        """Ask the image model."""
        if self.services.images is None:
            raise InputError(
                f"{self._who}: no model makes images; for operad run, set OPERAD_IMAGE_MODEL and "
                "OPENAI_API_KEY, or services: images: in YAML; in Python, give Services(images=ImageModel(…))"
            )
        images = await self.services.images.generate(call.text(self.params.prompt))
        return self.keep(*((data, suffix_of(mime_type)) for data, mime_type in images))


class EChartsParams(NodeParams):
    """A chart."""

    chart_type: Literal["line", "pie", "bar"] = Field(description="line, pie or bar.")
    chart_title: Text = Field(description="Its title.")
    data: Text = Field(description='The numbers, with semicolons: "1;2;3".')
    x_axisORcategories: Text = Field(description='What they are of, with semicolons: "a;b;c".')  # noqa: N815 - Dify's


class ECharts(NodeOperator[EChartsParams]):
    """Draws a chart: as an ECharts option, in a text that shows it."""

    type = "echarts"
    params_type = EChartsParams
    hint = 'data is "1;2;3", x_axisORcategories "a;b;c"; the text shows the chart.'
    gives = "text (string)"
    example = {
        "chart_type": "bar",
        "chart_title": "Visits",
        "data": "{{#3.counts#}}",
        "x_axisORcategories": "{{#3.days#}}",
    }

    def outputs(self, type_of: TypeOf) -> Mapping[str, VariableType]:
        """Return the type of the chart."""
        return {"text": T.STRING}

    async def compute(self, call: NodeCall) -> NodeResult:
        """Return the chart as an ECharts option in a text."""
        params = self.params
        title, data, names = map(call.text, (params.chart_title, params.data, params.x_axisORcategories))
        text = echarts_option(params.chart_type, title, data, names)
        return NodeResult({"text": text}, text=text)
