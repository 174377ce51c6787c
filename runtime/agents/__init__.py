"""Experts, and the leader that splits a job among them."""
