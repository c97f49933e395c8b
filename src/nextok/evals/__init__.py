"""Room evals."""
