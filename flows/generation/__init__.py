"""Generation of workflows from instructions: planned, built and mended by operators (Chat2Workflow)."""
