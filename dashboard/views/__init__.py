"""Snapshot in, escaped HTML out. Nothing here calls Streamlit."""
