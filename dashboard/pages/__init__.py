"""One file a page. Each has ``draw()``; ``dashboard/main.py`` calls that of the page asked for."""
