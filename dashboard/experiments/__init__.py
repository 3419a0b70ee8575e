"""Experiments on the page: what a user asks for, the processes that run it, and what came out."""
