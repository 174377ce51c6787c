"""What is looked up: documents, chunks, the index, insights of earlier runs."""
