"""Many runs: studies that are the papers’ tables, and sweeps of flags’ values."""
