"""Layer 4: what most programs call."""
