"""Where events go: a file of metrics always, experiment trackers on request."""
