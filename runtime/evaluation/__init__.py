"""Evaluations: data sets of cases, evaluators in code, and reports with scores by operator."""
