"""Generation of ComfyUI workflows from instructions: a model drafts code with a server's classes, and rules mend it."""
