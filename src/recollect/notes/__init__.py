"""The notes room: lessons as text, where they come from, where they go, and whether they help."""
