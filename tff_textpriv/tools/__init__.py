"""Commands around a run: plan its privacy, check the machine, prepare data."""
