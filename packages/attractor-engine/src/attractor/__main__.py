"""`python -m attractor`."""

from attractor.cli import main

main()
