"""Static rules that give leads, not verdicts."""
