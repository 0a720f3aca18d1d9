"""What becomes of records: results, futures and the errors made of them."""
