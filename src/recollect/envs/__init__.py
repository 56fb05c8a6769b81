"""Environments: what an agent acts in. The contract is `base`, the built-in domains are `desk`."""
