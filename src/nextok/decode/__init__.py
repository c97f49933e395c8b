"""Room decode."""
