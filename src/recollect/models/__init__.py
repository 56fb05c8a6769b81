"""Models: loading them, attending, and turning messages into tokens."""
