"""What runs the loop: one process, or several under a launcher."""
