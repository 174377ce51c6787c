"""Media: text extraction from documents, and files generated from text."""
