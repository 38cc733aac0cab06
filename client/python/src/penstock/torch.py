"""Models of PyTorch, as stages of a pipeline.

    class Smooth(torch.nn.Module):                        # y = h + (x - h) / 4, from frame to frame
        def forward(self, x, h):
            h = h + (x - h) / 4
            return h, h

    print(export(Smooth().eval(), "smooth.pt2", inputs={"x": [256]}, outputs=["y"], state={"h": [256]}))

`export` compiles the model by AOTInductor, once for each number of frames that it may get at a time, and returns the
stage for the configuration, a [[pipeline.stage]] with op = "model". The daemon then runs the model without Python, and
without PyTorch unless the model needs functions of its that Penstock lacks.
"""
from __future__ import annotations

import contextlib
import copy
import ctypes
import hashlib
import json
import math
import os
import platform
import re
import shutil
import tempfile
import warnings
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import torch
import torch._inductor.config
import torch._inductor.package
import torch.nn.attention
from torch.export.pt2_archive._package import package_pt2
from torch.utils import _pytree

from .kernels import _key, _toml

__all__ = ["export", "load"]

_DTYPES = {"u8": torch.uint8, "i8": torch.int8, "i16": torch.int16, "u16": torch.uint16, "i32": torch.int32,
           "i64": torch.int64, "f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32,
           "f64": torch.float64, "bool": torch.bool}
_NAMES = {value: key for key, value in _DTYPES.items()}
_TOLERANCES = {"f16": 1e-2, "bf16": 5e-2, "f64": 1e-10}  # else 1e-5
_MARCH = {"avx512": "x86-64-v4", "avx2": "x86-64-v3", "default": "x86-64"}
_LIBTORCH = re.compile(r"/lib(c10|c10_cuda|torch|torch_cpu|torch_cuda|cudart|cuda)\.so[.\d]*$")


class _Tensor(NamedTuple):
    """A tensor of one frame."""
    name: str
    dtype: str
    shape: Tuple[int, ...]
    example: Optional[torch.Tensor] = None

    @property
    def text(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"

    def json(self) -> Dict[str, Any]:
        return {"name": self.name, "dtype": self.dtype, "shape": list(self.shape)}

    def batch(self, frames: int, device: str = "cpu") -> torch.Tensor:
        """Random frames, of which the first is the example."""
        kind, shape = _DTYPES[self.dtype], (frames, *self.shape)
        if kind.is_floating_point:
            made = torch.randn(shape, dtype=torch.float32).to(kind)
        else:  # perhaps indices, of which 0 and 1 are the safest
            made = torch.randint(0, 2, shape).to(kind)
        if self.example is not None:
            made[0] = self.example
        return made.to(device)


class _Stage(torch.nn.Module):
    """The model with its states packed into one tensor, the last input and the last output."""

    def __init__(self, model: torch.nn.Module, inputs: Sequence[_Tensor], states: Sequence[_Tensor]) -> None:
        super().__init__()
        self.model = model
        self.inputs = len(inputs)
        self.states = [each.shape for each in states]

    def forward(self, *tensors: torch.Tensor) -> Tuple[torch.Tensor, ...]:
        frames, given, at = tensors[0].shape[0], list(tensors[:self.inputs]), 0
        for shape in self.states:
            given.append(tensors[-1].narrow(1, at, math.prod(shape)).reshape(frames, *shape).contiguous())
            at += math.prod(shape)
        results = list(_pytree.tree_leaves(self.model(*given)))
        if self.states:
            states = [each.reshape(frames, -1) for each in results[-len(self.states):]]
            results[-len(self.states):] = [states[0] if len(states) == 1 else torch.cat(states, 1)]
        # The caller reads them as they lie, and none may be an input.
        return tuple(each.clone(memory_format=torch.contiguous_format) for each in results)


def export(model: torch.nn.Module, path: Union[str, "os.PathLike[str]"], *, inputs: Mapping[str, Any],
           outputs: Sequence[str] = ("out",), state: Optional[Mapping[str, Any]] = None,
           buckets: Sequence[int] = (1, 8, 64), devices: Sequence[str] = ("cpu",), name: Optional[str] = None,
           sources: Optional[Mapping[str, str]] = None, pipeline: Optional[str] = None, cpu: Optional[str] = None,
           tolerance: Optional[float] = None, options: Optional[Mapping[str, Any]] = None) -> str:
    """Writes the package of `model` to `path` and returns the stage that runs it, as TOML.

    model      a torch.nn.Module in evaluation mode. Its tensors have the frames as first dimension: forward takes the
               `inputs` and then the states, and returns the `outputs` and then the new states
    inputs     for each input its shape, of one frame and f32; a type and a shape, as ("i16", [512]); or an example of
               one frame. They go to forward in this order
    outputs    names of the outputs
    state      for each state the same as for an input. A session begins with zeros
    buckets    how many frames the model may get at a time; for each number it is compiled. A batch takes the least that
               suffices, and several if it is larger than all
    devices    "cpu", "cuda" (that of this machine), or both
    name       of the stage; the file's by default
    sources    for each input the stage that it comes from, or "input"
    pipeline   a name: returns a whole pipeline around the stage, whose input is the model's
    cpu        the least that the host must have: "avx512", "avx2"; this machine's by default
    tolerance  by how much the package's results may differ from the model's on random frames, of the largest number;
               1e-5 by default, and more for f16 and bf16
    options    more of Inductor's, such as {"max_autotune_gemm": True, "max_autotune_gemm_backends": "TRITON"}: on a GPU
               it then tries kernels of its own for each product, which takes minutes

    Raises TypeError and ValueError, which name the argument, and what the compiler raises.
    """
    path = Path(path)
    _check_arguments(path, buckets, devices, cpu)
    _check_model(model)
    takes = [_tensor(f"inputs[{key!r}]", key, value) for key, value in inputs.items()]
    states = [_tensor(f"state[{key!r}]", key, value) for key, value in (state or {}).items()]
    if not takes:
        raise ValueError("inputs is empty: a model has at least one")
    if len({each.dtype for each in states}) > 1:
        raise ValueError(f"state: {', '.join(f'{each.name} is {each.dtype}' for each in states)}; "
                         "states are packed into one tensor, and must have one type")
    _check_names(takes, states, outputs, sources)
    packed = [_Tensor("state", states[0].dtype, (sum(math.prod(each.shape) for each in states),))] if states else []
    with _quiet(), torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(1)
        model = copy.deepcopy(model).cpu()
        gives = _results_of(model, takes, states, outputs, tolerance)
        stage = _Stage(model, takes, states)
        with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
            made, files = Path(folder) / path.name, {}
            for device in devices:
                stage = stage.to(device)
                for frames in sorted(buckets):
                    tensors = tuple(each.batch(frames, device) for each in takes + packed)
                    files[f"{device}_{frames}"] = _compile(stage, tensors, device, cpu, options or {})
            facts = {"format": 1, "torch": torch.__version__.split("+")[0],
                     "cpu": (cpu or _capability()) if "cpu" in devices else None,
                     "cuda": "sm_{}{}".format(*torch.cuda.get_device_capability()) if "cuda" in devices else None,
                     "inputs": [each.json() for each in takes], "outputs": [each.json() for each in gives],
                     "state": {key: packed[0].json()[key] for key in ("dtype", "shape")} if packed else None,
                     "buckets": {each: sorted(buckets) if each in devices else [] for each in ("cpu", "cuda")}}
            package_pt2(
                str(made), aoti_files=files, extra_files={"penstock.json": json.dumps(facts)})
            for device in devices:
                stage = stage.to(device)
                for frames in sorted(buckets):
                    tensors = [each.batch(frames, device) for each in takes + packed]
                    _compare(stage, made, tensors, gives + packed, tolerance)
            _move(made, path)
    stage_name = name or path.stem
    table = {"name": stage_name, "op": "model", "file": path.name,
             "inputs": dict(sources) if sources else None,
             "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    lines = [f"{key:6} = {_toml(value)}" for key, value in table.items() if value]
    text = "\n".join(["[[pipeline.stage]]", *lines])
    return text if pipeline is None else _around(text, pipeline, stage_name, takes, gives)


def load(path: Union[str, "os.PathLike[str]"], frames: int, device: str = "cpu") -> Any:
    """The model of a package for so many frames, run by PyTorch: it takes tensors of `frames` frames and the packed
    state, and returns the outputs and the new state as a list. Raises RuntimeError if the package has no such model."""
    _show_libtorch()
    model = torch._inductor.package.load_package(os.fspath(path), f"{device}_{frames}", run_single_threaded=True)

    def run(*tensors: torch.Tensor) -> List[torch.Tensor]:
        return list(_pytree.tree_leaves(model(*tensors)))
    return run


def _around(stage: str, pipeline: str, name: str, takes: Sequence[_Tensor], gives: Sequence[_Tensor]) -> str:
    """A pipeline whose input is the model's and whose outputs are the model's."""
    if len(takes) != 1:
        raise ValueError(f"pipeline={pipeline!r}: the model has {len(takes)} inputs, so write the pipeline yourself")
    head = ["[[pipeline]]", f"name    = {_toml(pipeline)}",
            f"input   = {{ dtype = {_toml(takes[0].dtype)}, shape = {_toml(takes[0].shape)} }}"]
    if len(gives) > 1:
        head.append(f"outputs = {_toml([f'{name}.{each.name}' for each in gives])}")
    return "\n".join([*head, "", stage])


# -- what is checked before anything is compiled -----------------------------------------------------------------------

def _check_arguments(path: Path, buckets: Sequence[int], devices: Sequence[str], cpu: Optional[str]) -> None:
    if path.suffix != ".pt2":
        raise ValueError(f"path={str(path)!r}: a package's name ends in .pt2")
    if not buckets or any(not isinstance(each, int) or each < 1 for each in buckets) or \
            len(set(buckets)) != len(buckets):
        raise ValueError(f"buckets={tuple(buckets)}: different numbers of frames, from 1")
    for device in devices:
        if device not in ("cpu", "cuda"):
            raise ValueError(f"devices has {device!r}; there are cpu and cuda")
        if device == "cuda" and not torch.cuda.is_available():
            raise ValueError("devices has \"cuda\", and PyTorch finds no GPU here: a package for a GPU is made on a "
                             "machine with one of its kind")
    if not devices or len(set(devices)) != len(devices):
        raise ValueError(f"devices={tuple(devices)}: \"cpu\", \"cuda\" or both")
    if cpu is not None and cpu not in _MARCH:
        raise ValueError(f"cpu={cpu!r}; there are {', '.join(_MARCH)}")
    if cpu not in (None, _capability()) and not hasattr(torch._inductor.config.cpp, "march"):
        raise ValueError(f"cpu={cpu!r}: PyTorch {torch.__version__} compiles for the machine it runs on alone")


def _check_model(model: Any) -> None:
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"model is a {type(model).__name__}, not a torch.nn.Module")
    for name, each in model.named_modules():
        where = f"its module {name!r}" if name else "it"
        if isinstance(each, torch.jit.ScriptModule):
            raise TypeError(f"model: {where} is TorchScript, which can't be exported and may keep state inside: build "
                            "the module in Python and load the weights of this one (its state_dict)")
        if each.training:
            raise ValueError(f"model: {where} is in training mode: call model.eval() first")


def _check_names(takes: Sequence[_Tensor], states: Sequence[_Tensor], outputs: Sequence[str],
                 sources: Optional[Mapping[str, str]]) -> None:
    if isinstance(outputs, str) or not outputs:
        raise TypeError(f"outputs={outputs!r}: a list of at least one name")
    for place, names in (("inputs", [each.name for each in takes]), ("outputs", list(outputs)),
                         ("state", [each.name for each in states])):
        for each in names:
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", each):
                raise ValueError(f"{place}: {each!r} is no name; a name has letters, digits and _")
        if len(set(names)) != len(names):
            raise ValueError(f"{place}: {', '.join(names)}; each name stands once")
    for each in sources or {}:
        if each not in [one.name for one in takes]:
            raise ValueError(f"sources[{each!r}]: the model has no such input; it has "
                             f"{', '.join(one.name for one in takes)}")


def _tensor(place: str, name: str, given: Any) -> _Tensor:
    """From a shape, a type and a shape, or an example."""
    example = None
    if hasattr(given, "__array__") and not isinstance(given, torch.Tensor):
        given = torch.from_numpy(given.copy())
    if isinstance(given, torch.Tensor):
        example, kind, shape = given.detach().cpu(), _NAMES.get(given.dtype), tuple(given.shape)
        if kind is None:
            raise ValueError(f"{place} is {given.dtype}; Penstock's models have {', '.join(_DTYPES)}")
    elif isinstance(given, (list, tuple)):
        typed = len(given) == 2 and isinstance(given[0], str)
        kind, shape = given if typed else ("f32", given)
        if kind not in _DTYPES:
            raise ValueError(f"{place} has the type {kind!r}; Penstock's models have {', '.join(_DTYPES)}")
        shape = tuple(shape) if isinstance(shape, (list, tuple)) else (shape,)
    else:
        raise TypeError(f"{place} is a {type(given).__name__}, not a shape of one frame, a type and a shape, or an "
                        "example of one frame")
    if not shape or any(not isinstance(each, int) or each < 1 for each in shape):
        raise ValueError(f"{place} has the shape {list(shape)}: that of one frame, of numbers from 1, without the "
                         "dimension of the frames")
    return _Tensor(name, kind, shape, example)


def _results_of(model: torch.nn.Module, takes: Sequence[_Tensor], states: Sequence[_Tensor],
                outputs: Sequence[str], tolerance: Optional[float]) -> List[_Tensor]:
    """The outputs, as the model gives them when it is run by PyTorch itself."""
    frames = 3
    tensors = [each.batch(frames) for each in [*takes, *states]]
    versions = {name: each._version for name, each in model.named_buffers()}

    def run(*given: torch.Tensor) -> List[torch.Tensor]:
        try:
            return list(_pytree.tree_leaves(model(*(each.clone() for each in given))))
        except Exception as error:
            shapes = ", ".join(f"{each.name} {each.text}" for each in [*takes, *states])
            raise ValueError(f"the model does not run on {len(given[0])} frames of {shapes}: {error}") from error

    results, again = run(*tensors), run(*tensors)
    changed = [name for name, each in model.named_buffers() if each._version != versions.get(name)]
    if changed:
        raise ValueError(f"the model keeps state inside: it changes its buffer {changed[0]!r}. Take the state as an "
                         "argument, return the new one, and name it in state")
    wanted = len(outputs) + len(states)
    if len(results) != wanted or not all(isinstance(each, torch.Tensor) for each in results):
        raise ValueError(f"the model returns {len(results)} tensors, and outputs ({', '.join(outputs)}) and state "
                         f"({', '.join(each.name for each in states) or 'none'}) name {wanted}: the outputs come "
                         "first, then the new states")
    alone = [run(*(each[frame:frame + 1] for each in tensors)) for frame in range(frames)]
    gives = []
    for at, (name, result) in enumerate(zip([*outputs, *(each.name for each in states)], results)):
        place = f"outputs: {name!r}" if at < len(outputs) else f"state: the new {name!r}"
        kind, shape = _NAMES.get(result.dtype), tuple(result.shape)
        if kind is None:
            raise ValueError(f"{place} is {result.dtype}; Penstock's models have {', '.join(_DTYPES)}")
        if not shape or shape[0] != frames or tuple(alone[0][at].shape) != (1, *shape[1:]):
            raise ValueError(f"{place} has the shape {list(shape)} for {frames} frames, and "
                             f"{list(alone[0][at].shape)} for one: its first dimension must be the frames")
        if len(shape) == 1:
            raise ValueError(f"{place} has one number a frame: return it as [frames, 1], by unsqueeze(1)")
        if at >= len(outputs):
            said = states[at - len(outputs)]
            if (kind, shape[1:]) != (said.dtype, said.shape):
                raise ValueError(f"{place} is {_Tensor(name, kind, shape[1:]).text}, and state says {said.text}")
        allowed = tolerance if tolerance is not None else _TOLERANCES.get(kind, 1e-5)
        if _difference(again[at], result) > allowed:
            raise ValueError(f"{place} is another the second time on the same frames: the model keeps state inside, or "
                             "draws random numbers. Take the state as an argument, return the new one, and name it in "
                             "state")
        if _difference(torch.cat([each[at] for each in alone]), result) > allowed:
            raise ValueError(f"{place} depends on the other frames of its batch")
        gives.append(_Tensor(name, kind, shape[1:]))
    return gives[:len(outputs)]


def _difference(got: torch.Tensor, wanted: torch.Tensor) -> float:
    """The largest, of the largest number (at least 1)."""
    if got.shape != wanted.shape:
        return math.inf
    got, wanted = got.to("cpu", torch.float64), wanted.to("cpu", torch.float64)
    equal = (got == wanted) | (got.isnan() & wanted.isnan())
    worst = torch.where(equal, 0.0, (got - wanted).abs()).max().item()
    scale = wanted[wanted.isfinite()].abs()
    worst /= max(scale.max().item() if scale.numel() else 0.0, 1.0)
    return math.inf if math.isnan(worst) else worst


# -- the compiler ------------------------------------------------------------------------------------------------------

def _compile(stage: _Stage, tensors: Tuple[torch.Tensor, ...], device: str, cpu: Optional[str],
             options: Mapping[str, Any]) -> List[str]:
    """The files of one model of the package."""
    try:
        with _plain_operators():
            program = torch.export.export(stage, tensors, strict=False)
            program = program.run_decompositions(_decompositions())
    except Exception as error:
        raise TypeError("torch.export can't follow the model. Where a tensor's values decide what runs (if, while), "
                        f"say it by torch.where; sizes must follow from shapes. It says: {error}") from error
    signature = program.graph_signature
    for changed in (*signature.buffers_to_mutate.values(), *signature.user_inputs_to_mutate.values()):
        raise ValueError(f"the model changes {changed.removeprefix('model.')!r}: state comes as an argument, and the "
                         "new one is returned and named in state")
    chosen = {"aot_inductor.package": True, "aot_inductor.link_libtorch": False,
              "aot_inductor.embed_kernel_binary": True, **_options_of(device, cpu), **options}
    files = torch._inductor.aot_compile(_module_of(program), tensors, options=chosen)
    files = [str(each) for each in ([files] if isinstance(files, str) else files)]
    _refuse_proxies(files)
    # Sources are left out but the wrapper's, by whose name PyTorch 2.11 finds the model again.
    return [each for each in files if each and (not each.endswith(".cpp") or each.endswith(".wrapper.cpp"))]


def _module_of(program: Any) -> Any:
    try:
        return program.module(check_guards=False)  # the daemon checks shapes
    except TypeError:
        return program.module()


def _options_of(device: str, cpu: Optional[str]) -> Dict[str, Any]:
    # Convolutions keep their layout, and so give the bits that PyTorch gives without a compiler.
    chosen: Dict[str, Any] = {"layout_optimization": False}
    if device == "cuda":
        return chosen
    # One thread, as the daemon has its own. Vector code of Inductor's calls functions that libtorch alone has; the C++
    # compiler vectorizes too.
    chosen.update({"cpp.threads": 1, "cpp.simdlen": 1})
    if platform.machine() == "x86_64" and hasattr(torch._inductor.config.cpp, "march"):
        chosen["cpp.march"] = _MARCH[cpu or _capability()]
    return chosen


def _capability() -> str:
    found = torch.backends.cpu.get_cpu_capability().lower()
    return found if found in _MARCH else "default"


def _decompositions() -> Any:
    """Attention and recurrent cells become products; Inductor makes better ones of linear and matmul itself."""
    table = torch.export.default_decompositions()
    for each in (torch.ops.aten.linear.default, torch.ops.aten.matmul.default):
        table.pop(each, None)
    # A GPU's own forms of recurrent cells.
    table[torch.ops.aten._thnn_fused_lstm_cell.default] = _lstm_cell
    table[torch.ops.aten._thnn_fused_gru_cell.default] = _gru_cell
    return table


def _lstm_cell(input_gates: torch.Tensor, hidden_gates: torch.Tensor, c: torch.Tensor,
               input_bias: Optional[torch.Tensor] = None,
               hidden_bias: Optional[torch.Tensor] = None) -> Tuple[torch.Tensor, ...]:
    """aten._thnn_fused_lstm_cell: the new h and c, and what only its gradient reads."""
    gates = _plus(input_gates, input_bias) + _plus(hidden_gates, hidden_bias)
    let_in, keep, cell, give = gates.chunk(4, 1)
    c = torch.sigmoid(keep) * c + torch.sigmoid(let_in) * torch.tanh(cell)
    return torch.sigmoid(give) * torch.tanh(c), c, gates


def _gru_cell(input_gates: torch.Tensor, hidden_gates: torch.Tensor, h: torch.Tensor,
              input_bias: Optional[torch.Tensor] = None,
              hidden_bias: Optional[torch.Tensor] = None) -> Tuple[torch.Tensor, ...]:
    """aten._thnn_fused_gru_cell: the new h, and what only its gradient reads."""
    from_input, from_hidden = _plus(input_gates, input_bias), _plus(hidden_gates, hidden_bias)
    reset, update, new = from_input.chunk(3, 1)
    hidden_reset, hidden_update, hidden_new = from_hidden.chunk(3, 1)
    update = torch.sigmoid(update + hidden_update)
    new = torch.tanh(new + torch.sigmoid(reset + hidden_reset) * hidden_new)
    return (h - new) * update + new, torch.cat([from_input, h, h], 1)


def _plus(gates: torch.Tensor, bias: Optional[torch.Tensor]) -> torch.Tensor:
    return gates if bias is None else gates + bias


@contextlib.contextmanager
def _plain_operators() -> Iterator[None]:
    """Keeps fused operators, which libtorch alone has, out of what is traced."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH), \
                torch.backends.mkldnn.flags(enabled=False), torch.backends.cudnn.flags(enabled=False):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


def _refuse_proxies(files: Sequence[str]) -> None:
    """Raises ValueError with the operators that need an interpreter of PyTorch's while the model runs."""
    code = b"".join(Path(each).read_bytes() for each in files if each.endswith(".so"))
    if b"aoti_torch_proxy_executor_call_function" not in code:
        return
    names: List[str] = []
    for each in files:
        if each.endswith(".json") and "metadata" not in each:
            names += re.findall(r'"target": ?"([^"]+)"', Path(each).read_text())
    raise ValueError("the model has operators that AOTInductor can't call without an interpreter of PyTorch: "
                     f"{', '.join(sorted(set(names))) or 'unknown'}. Write them with other operators")


# -- the package -------------------------------------------------------------------------------------------------------

def _compare(stage: _Stage, package: Path, tensors: Sequence[torch.Tensor], gives: Sequence[_Tensor],
             tolerance: Optional[float]) -> None:
    """Raises ValueError unless the package gives what the model gives."""
    frames, device = len(tensors[0]), tensors[0].device.type
    for each, mine, theirs in zip(gives, load(package, frames, device)(*tensors), stage(*tensors)):
        allowed = tolerance if tolerance is not None else _TOLERANCES.get(each.dtype, 1e-5)
        worst = _difference(mine, theirs)
        if not worst <= allowed:
            raise ValueError(f"the package's {each.name!r} is {worst:.3g} off the model's on {frames} random frames, "
                             f"of the largest number; tolerance is {allowed:g}")


def _show_libtorch() -> None:
    """Lets the package's code, which links no libtorch, find that of this process."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        found = {line.split()[-1] for line in maps if _LIBTORCH.search(line.rstrip())}
    for each in found:
        ctypes.CDLL(each, ctypes.RTLD_GLOBAL)


def _move(made: Path, path: Path) -> None:
    """Whole or not at all, as a daemon may read it; nobody else may write it, or the daemon refuses it."""
    part = path.with_name(path.name + ".part")
    with open(made, "rb") as source, open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), "wb") as file:
        shutil.copyfileobj(source, file)
    os.replace(part, path)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without warnings of the packages inside, and with products that are not rounded to TF32."""
    backends = (torch.backends.cudnn, torch.backends.cuda.matmul)
    before = [each.allow_tf32 for each in backends]
    try:
        for each in backends:
            each.allow_tf32 = False
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for each, value in zip(backends, before):
            each.allow_tf32 = value
