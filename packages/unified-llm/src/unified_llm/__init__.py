"""One client for every language model provider."""
