"""What every unmerged branch would meet on onto today."""
