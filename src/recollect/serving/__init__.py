"""The serving room: a policy for agents written elsewhere, whose attempts become trajectories."""
