"""YAML files of experts in the studio: their graph, and operations as minimal changes of the text."""
