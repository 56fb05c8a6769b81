"""Distilling: from attempts at a task to a note."""
