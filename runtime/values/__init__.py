"""What all packages build on: messages, files, errors, JSON Schema, documents with line numbers."""
