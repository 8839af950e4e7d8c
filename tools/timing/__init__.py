"""Interleaved timing of a candidate and its baselines, and the statistics of it."""
