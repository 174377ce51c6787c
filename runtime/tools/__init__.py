"""Tools of models: Tool, ToolGroup, Toolkit, and the connections that tools hold."""
