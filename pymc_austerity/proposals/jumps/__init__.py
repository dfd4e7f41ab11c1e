"""Jumps between the sets of coefficients that a model may include."""
