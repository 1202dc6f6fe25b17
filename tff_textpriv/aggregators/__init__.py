"""Aggregation factories: how client updates become one server update."""
