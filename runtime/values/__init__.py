"""Values without I/O: messages, files, errors, JSON Schema, documents with line numbers."""
