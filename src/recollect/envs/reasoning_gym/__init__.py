"""Every dataset of the package reasoning-gym as an environment (extra `reasoning`)."""
