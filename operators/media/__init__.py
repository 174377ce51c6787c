"""Documents read, and files made from text: the cores of a workflow's nodes for media."""
