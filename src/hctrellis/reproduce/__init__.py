"""The tables and figures of the paper (arXiv 2002.11661), computed again."""
