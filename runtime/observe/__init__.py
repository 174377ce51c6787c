"""What watches runs: the trace, OpenTelemetry, metrics, logs, notebooks."""
