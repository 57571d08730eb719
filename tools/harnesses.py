"""Exports the programs of JAX's own tests of its operations, for tools/harnesses.R: every EVERY-th of about 7,400.

    python tools/harnesses.py FOLDER [EVERY]

Needs jax and absl-py. Writes each program as a portable artifact and as text, its inputs and JAX's results as plain numbers, and
a line for each to index.jsonl.
"""

import json
import os
import pathlib
import sys

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["JAX_ENABLE_X64"] = "1"

import jax
import numpy as np
from jax import export
from jax._src.internal_test_util import test_harnesses

folder = pathlib.Path(sys.argv[1])
every = int(sys.argv[2]) if len(sys.argv) > 2 else 10
folder.mkdir(parents=True, exist_ok=True)


def write(array, path):
    array = np.asarray(array)
    array.tofile(path)
    return {"dtype": str(array.dtype), "shape": list(array.shape)}


def make(harness, path):
    arguments = harness.dyn_args_maker(np.random.RandomState(42))
    function = jax.jit(harness.dyn_fun)
    exported = export.export(function, platforms=["cpu"])(*arguments)
    leaves = jax.tree_util.tree_leaves(arguments)
    inputs = [leaves[i] for i in exported.module_kept_var_idx]
    results = jax.tree_util.tree_leaves(function(*arguments))
    pathlib.Path(f"{path}.artifact").write_bytes(exported.mlir_module_serialized)
    pathlib.Path(f"{path}.mlir").write_text(exported.mlir_module())
    return {
        "inputs": [write(x, f"{path}.in{i}") for i, x in enumerate(inputs)],
        "results": [write(x, f"{path}.out{i}") for i, x in enumerate(results)],
    }


left_out = 0
with open(folder / "index.jsonl", "w") as index:
    for number, harness in enumerate(test_harnesses.all_harnesses):
        if number % every:
            continue
        try:
            made = make(harness, folder / str(number))
        except Exception as error:  # JAX itself does not do all of them on CPUs
            left_out += 1
            print(harness.fullname, type(error).__name__, str(error).split("\n")[0][:100])
            continue
        index.write(json.dumps({"number": number, "name": harness.fullname, **made}) + "\n")
        index.flush()
print(f"{left_out} left out by JAX")
