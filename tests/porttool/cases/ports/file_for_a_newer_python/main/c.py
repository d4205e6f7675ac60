try:
    pass
except OSError, ValueError:
    pass
