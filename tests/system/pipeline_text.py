"""Pipelines as TOML, for the tests in Python."""

import json

VERSION = "config_version = 1\n"


def pipeline(name, dtype, shape, stages, outputs, extra=""):
    """One [[pipeline]]; a stage is (name, op, extra lines)."""
    text = f'[[pipeline]]\nname = "{name}"\ninput = {{ dtype = "{dtype}", shape = {json.dumps(shape)} }}\n'
    text += f'outputs = {json.dumps(outputs)}\n{extra}'
    for stage, op, extra in stages:
        text += f'[[pipeline.stage]]\nname = "{stage}"\nop = "{op}"\n{extra}'
    return text
