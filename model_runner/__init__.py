"""Everything that happens on the device, its process, and its client."""
