"""Compiled code, and nothing else; Numba comes in by the `door`."""
