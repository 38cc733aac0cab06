"""The convnet of ../../../../models.py in eager mode: Triton's Python backend calls it with the requests of a batch."""

import os
import pathlib
import sys

sys.path.extend(os.environ["PEER_PYTHONPATH"].split(os.pathsep))  # Triton's Python ignores virtual environments
sys.path.append(str(pathlib.Path(__file__).resolve().parents[4]))

import numpy as np
import torch
import triton_python_backend_utils as pb_utils

from models import MODELS


class TritonPythonModel:
    def initialize(self, args):
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.module = MODELS["convnet"].module().to(self.device)

    @torch.inference_mode()
    def execute(self, requests):
        inputs = [pb_utils.get_input_tensor_by_name(request, "x").as_numpy() for request in requests]
        y = self.module(torch.from_numpy(np.concatenate(inputs)).to(self.device)).cpu().numpy()
        responses, row = [], 0
        for each in inputs:
            output = pb_utils.Tensor("y", y[row:row + len(each)])
            responses.append(pb_utils.InferenceResponse(output_tensors=[output]))
            row += len(each)
        return responses
