"""One file a view of the page, with ``draw()``. Not named pages: Streamlit takes a folder of that name for its own."""
