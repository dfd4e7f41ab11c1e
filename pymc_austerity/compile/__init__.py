"""How functions of a model are compiled, and kept on disk.

Imports nothing of the other rooms.
"""

import pymc_austerity.compile.pass_managers  # before anything is compiled
