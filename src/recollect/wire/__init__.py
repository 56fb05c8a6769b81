"""The wire: JSON over loopback, guarded in one place, and a client that gives up in time."""
