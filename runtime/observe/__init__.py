"""Observation of runs: the trace, OpenTelemetry, metrics, logs, notebooks."""
