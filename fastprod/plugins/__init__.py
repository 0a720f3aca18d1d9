"""What one record meets of a producer's plug-ins."""
