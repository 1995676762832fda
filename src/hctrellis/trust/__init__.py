"""How far answers can be trusted: the choice of beta, and the bootstrap."""
