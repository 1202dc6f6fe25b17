"""Federated text data sets: users and their texts, read lazily."""
