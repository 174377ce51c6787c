"""What an operator may take and what happens when it fails: Retry, Timeout, Limits, Budget, Cache."""
