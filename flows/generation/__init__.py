"""Workflows made from words: planned, built and mended by operators (Chat2Workflow)."""
