"""Policies of operators: Retry, Timeout, Limits, Budget, Cache."""
