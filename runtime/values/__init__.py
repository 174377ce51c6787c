"""Values shared by all packages: messages, files, errors, JSON Schema, documents with line numbers."""
