"""Formats of workflow files, each a `format.Format` in `table.FORMATS`.

    bytes ─ read text ─> document ─ read nodes ─> NodeGraph ─ assemble ─> Workflow, which runs
    bytes <─ write text ─ document <─ write nodes ─ NodeGraph

- The format of a file is found by its content: `table.find_format`.
- Text becomes a document of plain values, within limits: `json_text`, `yaml_text` (with lines), `coze.archive`.
- The nodes of the document become nodes of Operad's types. Dify and Coze have a `NodeMapping` for each type, which
  reads and writes its parameters, in `dify.nodes` and `coze.nodes`. Data without a place in the parameters is kept in
  `extra`, under the name of the format, and written back by the same format.
- What a file says that runs differently here is found by declarations of its fields: `fields`, `remarks`.
- What a format cannot hold is listed by `Format.losses`.
- A changed file keeps the text of what did not change: `yaml_edit`.
"""
