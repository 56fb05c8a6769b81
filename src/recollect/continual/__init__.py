"""Learning one domain after another: schedule, methods, what was kept, lost and transferred."""
