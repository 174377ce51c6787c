"""Reasoning: Task, prompt, Reasoner, conversation."""
