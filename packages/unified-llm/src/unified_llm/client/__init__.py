"""Layer 3: routing requests to providers."""
