"""Training on a cluster: our loop in verl's driver, verl's workers and servers under it.

The loop plans, draws, commits, scores and records as it does in one process; verl samples with its
rollout servers and learns with its training workers. Nothing of verl is changed or copied. Modules
here that import verl or ray are imported only where those are installed: `recollect[verl]`.
"""
