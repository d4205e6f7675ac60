"""The review branch handed to others: pushed, and offered as a pull request."""
