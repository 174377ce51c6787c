"""`operad evaluate`: experts on cases, evaluators on labelled cases, and workflows by the metrics of papers."""
