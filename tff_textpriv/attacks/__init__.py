"""Attacks: clients' text from what they send, with scores; canary users of an audit."""
