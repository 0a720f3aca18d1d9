"""What Python sees of `column_parser`: nothing; see column_parser.pxd."""
