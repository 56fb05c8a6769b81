"""The rollout room: sampling episodes, many rows at a time, with everything recorded."""
