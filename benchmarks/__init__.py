"""Measurements of speed, scale and start-up; see docs/performance.md."""
