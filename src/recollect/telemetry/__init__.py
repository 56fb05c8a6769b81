"""What a run says about itself: events, metric names, sinks, the progress bar, plots.

Of Recollect it knows the errors, one spelling of JSON and how sure a share is (`notes.credit`), so
that the rooms that train and compare may report through it.
"""
