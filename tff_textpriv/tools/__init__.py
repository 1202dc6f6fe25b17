"""Command-line tools beside training; each runs as `python -m`."""
