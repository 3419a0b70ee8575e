"""The page. Views are pure: a snapshot in, a table, a chart or escaped HTML out; few modules touch Streamlit."""
