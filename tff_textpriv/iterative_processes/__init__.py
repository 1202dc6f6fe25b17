"""The federated algorithms, one builder a file, and the registry of their names."""
