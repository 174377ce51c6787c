"""Runs in the studio: whole or from a node on, their states, values and files."""
