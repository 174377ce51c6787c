"""YAML files of experts in the studio: their graph, and operations as changes of the text that touch nothing else."""
