"""How functions of a model are compiled, and kept on disk.

Imports nothing of the other rooms.
"""
