"""What runs a node (section 4)."""
