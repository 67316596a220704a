"""The study of error feedback."""
