"""Requests over HTTP: who may send them and how many, their bounds, and the form of problems and streams."""
