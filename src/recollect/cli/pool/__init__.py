"""`recollect pool`: look at the stored trajectories, and take care of them.

One module per command, gathered in `app`. They import nothing heavy at the top, so that
`--help` answers at once.
"""
