"""Audits: canary users among the users of a run, and a lower bound on its epsilon."""
