"""Text without federation: cleaning, tokenizers and their statistics."""
