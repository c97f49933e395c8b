"""Room tokenizer."""
