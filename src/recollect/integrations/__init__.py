"""The integrations room: other code bases' interfaces, on our store and pool."""
