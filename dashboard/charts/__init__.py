"""Chart specifications. Each is built once per theme and language; a tick only replaces the data."""
