"""The doctor: what is wrong with a run or an installation, measured, and what to change."""
