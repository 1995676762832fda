"""The options of each command; what it then does is in the module of that name one folder up.

The work is imported when a command is called, so that ``--help`` stays quick.
"""
