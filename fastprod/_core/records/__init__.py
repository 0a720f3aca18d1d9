"""Record batches, written in place and read back."""
