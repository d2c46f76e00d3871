"""Environments that lie elsewhere: anything with a POSIX shell, behind a transport that starts programs there."""
