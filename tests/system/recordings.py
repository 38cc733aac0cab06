"""Recordings and their float64 reference.

PENSTOCK_RECORDINGS and PENSTOCK_REFERENCE name the folders of the recordings and of reference.py.
"""

import importlib.util
import os
import pathlib

try:
    import numpy as np
except ImportError:
    np = None

RECORDINGS = pathlib.Path(os.environ.get("PENSTOCK_RECORDINGS", "../shared/recordings"))
REFERENCE = pathlib.Path(os.environ.get("PENSTOCK_REFERENCE", "../shared/reference"))


def missing(client=False):
    """Why a test that needs them (and, with `client`, the Python client) can't run here; empty when it can."""
    if np is None:
        return "numpy is not installed"
    if not (RECORDINGS / "modes1.cu8").exists():
        return f"no recordings in {RECORDINGS}"
    if not (REFERENCE / "reference.py").exists():
        return f"no reference.py in {REFERENCE}"
    if importlib.util.find_spec("scipy") is None:
        return "scipy, which the reference needs, is not installed"
    if client and importlib.util.find_spec("zmq") is None:
        return "pyzmq is not installed"
    return ""


def load_reference():
    spec = importlib.util.spec_from_file_location("reference", REFERENCE / "reference.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
