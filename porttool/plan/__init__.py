"""`port.yaml`: what a port is, read and checked once."""
