"""Kernel barrier round a process that handles what others wrote: files, network and other processes are out of reach."""

from operad.runtime.barrier.confine import confine, limit, missing, python_folders

__all__ = ["confine", "limit", "missing", "python_folders"]
