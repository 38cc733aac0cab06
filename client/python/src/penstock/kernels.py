"""Kernels that are written in Python, as stages of a pipeline.

    @cuda.jit                                             # numba.cuda; or @triton.jit
    def gain(x, y, count, factor):
        i = cuda.grid(1)
        if i < count:
            y[i] = factor * x[i]

    print(export(gain, "gain.ptx",
                 signature={"x": "f32* in", "y": "f32* out", "count": "i64 frames * n0", "factor": "f32 factor"},
                 grid=["ceil(frames * n0 / 256)"], block=[256], values={"factor": 2.0}))

`export` compiles the kernel to PTX, which needs no GPU, and returns the stage for the configuration, a
[[pipeline.stage]] with op = "kernel". It uses Numba or Triton only for a kernel of theirs.
"""
from __future__ import annotations

import inspect
import json
import os
import re
from pathlib import Path
from typing import Any, Mapping, NamedTuple, Optional, Sequence, Union

__all__ = ["export"]

Expression = Union[int, str]


class _Type(NamedTuple):
    numba: Optional[str]
    triton: Optional[str]


_TYPES = {"u8": _Type("uint8", "u8"), "i8": _Type("int8", "i8"), "i16": _Type("int16", "i16"),
          "u16": _Type("uint16", "u16"), "i32": _Type("int32", "i32"), "u32": _Type("uint32", "u32"),
          "i64": _Type("int64", "i64"), "u64": _Type("uint64", "u64"), "f16": _Type("float16", "fp16"),
          "bf16": _Type(None, "bf16"), "f32": _Type("float32", "fp32"), "f64": _Type("float64", "fp64"),
          "cf32": _Type("complex64", None)}


class _Parameter(NamedTuple):
    """A parameter of the kernel and what the stage gives it."""
    name: str
    type: str
    points: bool
    argument: str


class _Code(NamedTuple):
    """What a compiler made of a kernel."""
    ptx: str
    entry: str  # "" if the file has no other
    block: Sequence[Expression]
    shared: Expression
    hidden: int  # trailing pointers that the kernel does not use


def export(kernel: Any, path: Union[str, "os.PathLike[str]"], *, signature: Mapping[str, str],
           grid: Sequence[Expression], block: Optional[Sequence[Expression]] = None, shared: Expression = 0,
           constants: Optional[Mapping[str, Any]] = None, output: Optional[Mapping[str, Any]] = None,
           outputs: Optional[Mapping[str, Any]] = None, values: Optional[Mapping[str, Any]] = None,
           state: Optional[Mapping[str, Expression]] = None, name: Optional[str] = None,
           architecture: str = "sm_90", options: Optional[Mapping[str, Any]] = None) -> str:
    """Writes the PTX of `kernel` to `path` and returns the stage that runs it, as TOML.

    kernel        what numba.cuda.jit or triton.jit gives
    signature     for each parameter its type and what it gets, as in the stage's `args`: "f32* in", "f32* out",
                  "i64 frames * n0", "f32 NAME" (a number of `values`), "f32* NAME" (an array of `values`),
                  "i32* session.frames"; without a type it is an i64
    grid, block   blocks and threads: 1 to 3 numbers or expressions; they may use `constants`. The block of a Triton
                  kernel follows from num_warps: leave it out
    shared        bytes of dynamic shared memory; Triton says that itself
    constants     values of the tl.constexpr parameters of a Triton kernel
    output, outputs, values, state   as in the stage
    name          of the stage; the kernel's name by default
    architecture  the oldest that the PTX runs on. PTX of Triton for sm_90 and later runs on that one alone
    options       of the compiler: fastmath, opt, lineinfo, … (Numba); num_warps, num_stages, … (Triton)

    Raises TypeError and ValueError, which name the argument, and what the compiler raises.
    """
    compiler = _compiler_of(kernel)
    number = re.fullmatch(r"sm_(\d{2,3})[af]?", architecture)
    if number is None:
        raise ValueError(f"architecture={architecture!r}: such as \"sm_90\"")
    values = dict(values or {})
    constants = dict(constants or {})
    parameters = [_parameter(each, text) for each, text in signature.items()]
    code = compiler(kernel, parameters, block, shared, constants, int(number[1]), dict(options or {}))
    path = Path(path)
    _write(path, code.ptx)
    arguments = [f"{each.type}* {each.argument}" if each.points and each.argument in values
                 else each.argument if each.points or each.argument == "session.stride"
                 else f"{each.type} {each.argument}" for each in parameters]
    stage = {"name": name or kernel.__name__, "op": "kernel", "file": path.name, "entry": code.entry, "output": output,
             "outputs": outputs, "grid": [_with_constants(each, constants) for each in grid],
             "block": [_with_constants(each, constants) for each in code.block],
             "shared": _with_constants(code.shared, constants), "args": arguments + ["null"] * code.hidden,
             "values": values, "state": state}
    lines = [f"{key:6} = {_toml(value)}" for key, value in stage.items() if value not in (None, "", 0, {})]
    return "\n".join(["[[pipeline.stage]]", *lines])


def _compiler_of(kernel: Any) -> Any:
    module, kind = type(kernel).__module__, type(kernel).__name__
    if kind == "JITFunction" and module.startswith("triton."):
        return _compile_triton
    if kind == "CUDADispatcher" and module.startswith("numba."):
        return _compile_numba
    if module.startswith("triton.") and hasattr(kernel, "fn"):
        raise TypeError(f"kernel is a {kind} of Triton: export the function in it (kernel.fn) with the constants and "
                        "options of one configuration")
    raise TypeError(f"kernel is a {kind}, not what numba.cuda.jit or triton.jit gives")


def _parameter(name: str, text: str) -> _Parameter:
    place = f"signature[{name!r}]"
    if not isinstance(text, str):
        raise TypeError(f"{place} is a {type(text).__name__}, not a text such as \"f32* in\"")
    typed = re.fullmatch(r"(\w+)(\*?)\s+(?=[\w(])(.+)", text.strip())
    kind, star, argument = typed.groups() if typed else ("i64", "", text.strip())
    if kind not in _TYPES:
        raise ValueError(f"{place} = {text!r} has an unknown type; there are {', '.join(_TYPES)}")
    if argument == "session":
        raise ValueError(f"{place}: a kernel in Python takes the session's members: \"i32* session.frames\", "
                         "\"u8* session.pool\", \"u64 session.stride\"")
    if not star and re.fullmatch(r"in\d?|out(\.\w+)?|session\.(frames|pool)|(new_)?state", argument):
        example = kind if typed else "f32"
        raise ValueError(f"{place} = {text!r} needs the type that it points to, such as \"{example}* {argument}\"")
    return _Parameter(name, kind, bool(star), argument)


def _check_names(parameters: Sequence[_Parameter], names: Sequence[str], constants: Mapping[str, Any]) -> None:
    """Raises ValueError unless `parameters` are those of the kernel, which calls them `names`."""
    given = [each.name for each in parameters]
    for each in given:
        if each not in names:
            raise ValueError(f"signature[{each!r}]: the kernel has no such parameter; it has {', '.join(names)}")
    for each in constants:
        if each in names:
            raise ValueError(f"constants[{each!r}] is no tl.constexpr; say what it gets in signature")
        raise ValueError(f"constants[{each!r}]: the kernel has no such parameter")
    for each in names:
        if each not in given:
            raise ValueError(f"signature says nothing of the kernel's parameter {each!r}")


def _compile_numba(kernel: Any, parameters: Sequence[_Parameter], block: Optional[Sequence[Expression]],
                   shared: Expression, constants: Mapping[str, Any], number: int, options: Mapping[str, Any]) -> _Code:
    from numba import cuda, types
    names = list(inspect.signature(kernel.py_func).parameters)
    _check_names(parameters, names, constants)
    if not block:
        raise TypeError("block is missing: the threads of a block, such as [256]")
    by_name = {}
    for each in parameters:
        kind = getattr(types, _TYPES[each.type].numba or "", None)
        if kind is None:
            raise ValueError(f"signature[{each.name!r}]: Numba has no {each.type}")
        by_name[each.name] = types.CPointer(kind) if each.points else kind
    known = inspect.signature(cuda.compile).parameters
    chosen = {key: value for key, value in kernel.targetoptions.items()
              if key in ("fastmath", "debug", "lineinfo", "opt", "launch_bounds") and key in known}
    for key in options:
        if key not in known or key in ("pyfunc", "sig", "device", "abi", "abi_info", "cc", "output"):
            raise ValueError(f"options[{key!r}]: numba.cuda.compile takes no such option here")
    # A kernel's own ABI; cuda.compile has no other for one.
    ptx, _ = cuda.compile(kernel.py_func, types.void(*(by_name[each] for each in names)), device=False, abi="numba",
                          cc=divmod(number, 10), output="ptx", **{**chosen, **options})
    if isinstance(ptx, bytes):
        ptx = ptx.decode()
    return _Code(ptx, "", block, shared, _hidden(ptx, len(names)))


def _compile_triton(kernel: Any, parameters: Sequence[_Parameter], block: Optional[Sequence[Expression]],
                    shared: Expression, constants: Mapping[str, Any], number: int, options: Mapping[str, Any]) -> _Code:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    if block is not None:
        raise TypeError("block: that of a Triton kernel is num_warps × 32; leave it out")
    if shared != 0:
        raise TypeError("shared: Triton says itself how much a kernel needs; leave it out")
    fixed = {}
    for each in kernel.params:
        if each.is_constexpr:
            if each.name not in constants and not each.has_default:
                raise ValueError(f"constants says nothing of the kernel's tl.constexpr {each.name!r}")
            fixed[each.name] = constants.get(each.name, each.default)
    rest = {key: value for key, value in constants.items() if key not in fixed}
    names = [each.name for each in kernel.params if not each.is_constexpr]
    _check_names(parameters, names, rest)
    by_name, attributes = {each: "constexpr" for each in fixed}, {}
    for each in parameters:
        kind = _TYPES[each.type].triton
        if kind is None:
            raise ValueError(f"signature[{each.name!r}]: Triton has no complex numbers; say \"f32* {each.argument}\", "
                             "two of them for each element")
        by_name[each.name] = "*" + kind if each.points else kind
        if each.points and not each.argument.startswith("session."):
            # The daemon's buffers are aligned to 256 bytes.
            attributes[(kernel.arg_names.index(each.name),)] = [["tt.divisibility", 16]]
    ordered = {each: by_name[each] for each in kernel.arg_names}
    made = triton.compile(ASTSource(kernel, ordered, fixed, attributes), target=GPUTarget("cuda", number, 32),
                          options=dict(options))
    facts = made.metadata
    for key, what, fine in (("global_scratch_size", "global scratch memory", 0),
                            ("profile_scratch_size", "memory for a profile", 0), ("num_ctas", "clusters of blocks", 1),
                            ("launch_cooperative_grid", "a cooperative launch", False),
                            ("tensordesc_meta", "tensor descriptors", [])):
        if getattr(facts, key, fine) not in (fine, None):
            raise ValueError(f"the kernel needs {what} ({key} is {getattr(facts, key)}), which no stage can give it")
    ptx = made.asm["ptx"]
    threads = re.search(r"\.reqntid\s+(\d+)", ptx)
    return _Code(ptx, facts.name, [int(threads[1]) if threads else 32 * facts.num_warps], facts.shared,
                 _hidden(ptx, len(names)))


def _hidden(ptx: str, count: int) -> int:
    """How many parameters the compiler has added to the kernel's own `count`."""
    entries = re.findall(r"\.entry\s+[\w$]+\s*\(([^)]*)\)", ptx)
    if len(entries) != 1:
        raise ValueError(f"the compiler made {len(entries)} kernels of one")
    return int(entries[0].count(".param")) - count


def _with_constants(text: Expression, constants: Mapping[str, Any]) -> Expression:
    """An expression with the numbers of the constants that it names."""
    if not isinstance(text, str):
        return text
    return re.sub(r"[A-Za-z_]\w*", lambda word: str(constants.get(word[0], word[0])), text)


def _write(path: Path, text: str) -> None:
    """Whole or not at all, as a daemon may read it; nobody else may write it, or the daemon refuses it."""
    part = path.with_name(path.name + ".part")
    with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(part, path)


def _toml(value: Any) -> str:
    value = value.tolist() if hasattr(value, "tolist") else value  # of NumPy
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(key)} = {_toml(each)}" for key, each in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_toml(each) for each in value) + "]"
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    raise TypeError(f"{value!r} is a {type(value).__name__}: numbers, texts, lists and tables can stand in a stage")


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name)
