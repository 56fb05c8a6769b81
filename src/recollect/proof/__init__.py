"""Proofs: what is promised, tried for real. Tests and `recollect doctor --prove` share them."""
