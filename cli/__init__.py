"""The ``stitchcuda`` command. Its modules import what they need inside the commands, so that ``--help`` is quick."""
