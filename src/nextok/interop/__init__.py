"""Room interop."""
