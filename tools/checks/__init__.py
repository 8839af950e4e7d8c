"""Correctness: a candidate against a golden reference, each in a process of its own; the verdict in the parent."""
