"""Room checkpoint."""
