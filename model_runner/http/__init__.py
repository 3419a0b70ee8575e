"""The runner over HTTP: OpenAI's API, metrics under vLLM's names, health. Served beside the page or alone."""
