"""Layer 1: the contract. Data and protocols, no behaviour and no I/O."""
