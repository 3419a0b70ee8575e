"""Claim cards: a result with everything that has to be known before it is believed, or what is missing for that."""
