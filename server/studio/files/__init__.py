"""Workflow files in the studio: the folder, open files with their histories, new files, and files opened lately."""
