"""The bank as a service: the task-memory calls of ReMe, answered from a store."""
