"""Reconstruction of clients' text from what they send: attacks, and their scores."""
