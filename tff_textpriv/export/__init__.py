"""Trained models for use elsewhere, without this package and without TFF."""
