"""`operad serve`: experts for others, as chat models of the OpenAI protocol, as MCP tools and as plain HTTP."""
