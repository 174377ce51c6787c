"""Sandbox for untrusted code and templates."""
