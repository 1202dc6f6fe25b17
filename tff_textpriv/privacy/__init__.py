"""Differential privacy as arithmetic: plans, accounting, ledger and card.

Nothing in this package imports TensorFlow. `plans` says what a run promises,
`calibration` does the sums, `ledger` records what was spent and `card` tells
the reader. Aggregators are made from the same plan as the ledger's entries, so
that the claim and the code cannot drift apart.
"""
