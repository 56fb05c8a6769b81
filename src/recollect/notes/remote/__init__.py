"""Notes from a service elsewhere: ours (`recollect notes serve`) or ReMe's task memory."""
