"""What runs: messages, workflows and their engines, reasoners, tools, events."""
