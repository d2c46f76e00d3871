"""Ways to ask a person (section 6)."""
