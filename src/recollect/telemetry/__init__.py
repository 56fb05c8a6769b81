"""What a run says about itself: events, metric names, sinks, the progress bar, plots.

This room imports nothing of Recollect but its errors and its JSON, so that every other room
may report through it.
"""
