"""What a caller gives, and what it means: names, references, the text of properties files."""
