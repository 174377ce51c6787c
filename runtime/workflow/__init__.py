"""Workflow, and one run of it: rounds, steps, questions, maps."""
