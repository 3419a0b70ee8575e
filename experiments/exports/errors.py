"""What an export that cannot be made is answered with."""


class ExportError(ValueError):
    """A run, format or folder that cannot be exported; the message names it and what would be right."""
