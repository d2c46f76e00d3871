"""What a model can do (section 3.3)."""
