"""Layer 2: what adapter authors need."""
