"""Walking the graph (section 3)."""
