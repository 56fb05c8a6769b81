"""The store as tables: all that SQLite and PostgreSQL have in common, which is nearly all."""
