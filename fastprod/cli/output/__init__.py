"""What a command shows: progress, reports, failures."""
