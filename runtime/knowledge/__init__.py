"""Knowledge: documents, chunks, the index, insights of earlier runs."""
