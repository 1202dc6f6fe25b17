"""Keras and functional models; nothing here knows of TFF's runtime."""
