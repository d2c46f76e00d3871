"""What a run remembers, in memory and on disk (section 5)."""
