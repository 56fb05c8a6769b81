"""The commands of `recollect notes`."""
