"""The commands of `recollect replay`."""
