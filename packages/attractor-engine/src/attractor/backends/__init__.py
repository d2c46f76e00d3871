"""What a codergen stage runs on (sections 1.4 and 4.5)."""

from attractor.backends.base import CodergenBackend
from attractor.backends.simulated import SimulatedBackend

__all__ = ["CodergenBackend", "SimulatedBackend"]
