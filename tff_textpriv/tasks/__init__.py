"""Tasks: client data, text encoding, model and metrics, each run as a command."""
