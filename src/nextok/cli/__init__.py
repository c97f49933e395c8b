"""The command line: one file a verb, options in, one call, print. Nothing imports this room.

`main.py` knows the verbs; each file is imported only when its verb is used.
"""
