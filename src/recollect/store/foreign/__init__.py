"""What other projects have recorded, each put into our spelling of OpenAI messages.

A converter turns one foreign record into a row as `recollect.store.messages` reads it, so that
everything is checked in one place. It invents nothing: rows without log-probs become demos.
"""
