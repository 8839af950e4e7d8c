"""StitchCUDA: PyTorch programs in, verified and faster CUDA programs out.

The rooms of the house are sub-packages; each names what it offers in its own ``__init__``.
Importing this package imports none of them, so that ``stitchcuda --help`` stays fast.
"""

__version__ = "0.1.0"
