"""verl on a CPU: a platform and a rollout server, for tests and for trying things out."""
