"""The frozen graph of a workflow, its schedule, and the engines that run it."""
