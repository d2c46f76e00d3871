"""What a codergen stage runs on (sections 1.4 and 4.5)."""
