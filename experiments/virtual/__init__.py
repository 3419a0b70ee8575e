"""What would have happened: the same scheduler on a virtual clock, with fitted or entered step times."""
