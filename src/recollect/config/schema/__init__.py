"""The schema: one file per section, gathered in `config.Config`."""
