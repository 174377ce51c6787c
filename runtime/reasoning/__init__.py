"""From a task to an answer: Task, prompt, Reasoner, conversation."""
