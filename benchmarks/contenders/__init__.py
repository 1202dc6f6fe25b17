"""Frameworks that train one and the same round, each in a process of its own."""
