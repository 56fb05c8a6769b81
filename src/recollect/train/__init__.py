"""The training room: the loop, the batch, the learner, checkpoints. It owns the only optimiser."""
