"""A Hann power spectrum by torch: Triton's Python backend calls it with the requests of a batch."""

import os
import sys

sys.path.extend(os.environ["PEER_PYTHONPATH"].split(os.pathsep))  # Triton's Python ignores virtual environments

import numpy as np
import torch
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.windows = {}

    def window(self, length):
        if length not in self.windows:
            self.windows[length] = torch.hann_window(length, device=self.device)
        return self.windows[length]

    def execute(self, requests):
        inputs = [pb_utils.get_input_tensor_by_name(request, "x").as_numpy() for request in requests]
        x = torch.from_numpy(np.concatenate(inputs)).to(self.device)
        y = torch.fft.rfft(x * self.window(x.shape[-1])).abs().square().cpu().numpy()
        responses, row = [], 0
        for each in inputs:
            output = pb_utils.Tensor("y", y[row:row + len(each)])
            responses.append(pb_utils.InferenceResponse(output_tensors=[output]))
            row += len(each)
        return responses
