"""Build, run, evaluate and optimize LLM workflows."""
