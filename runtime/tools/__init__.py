"""What a model may call: Tool, ToolGroup, Toolkit, and the connections that tools hold."""
