"""The benchmarks of bench/safetensors.R in Python: safetensors with JAX on the CPU. Prints medians as `name microseconds`."""

import os
import statistics
import time

import jax
import jax.numpy as jnp
import safetensors
import safetensors.numpy

folder = os.environ["PJRT_BENCH_FOLDER"]


def load(name):
    """The tensors as JAX arrays. The NumPy arrays are freed on return."""
    tensors = safetensors.numpy.load_file(f"{folder}/{name}.safetensors")
    return jax.block_until_ready({name: jax.device_put(tensor) for name, tensor in tensors.items()})


def names():
    with safetensors.safe_open(f"{folder}/unaligned.safetensors", "numpy") as file:
        return [(name, file.get_slice(name).get_shape()) for name in file.keys()]


def median(call, rounds=9):
    times = []
    for _ in range(rounds + 1):
        start = time.perf_counter()
        made = call()
        times.append((time.perf_counter() - start) * 1e6)
        del made
    return statistics.median(times[1:])


jnp.zeros(1).block_until_ready()
arrays = load("unaligned")
print("load_aligned", median(lambda: load("aligned")))
print("load_unaligned_warm", median(lambda: load("unaligned")))
print("info", median(names))
tensors = {name: jax.device_get(array) for name, array in arrays.items()}
saved = f"{folder}/python.safetensors"


def save_new():
    if os.path.exists(saved):
        os.remove(saved)
    safetensors.numpy.save_file(tensors, saved)


print("save_new", median(save_new))
print("save_over", median(lambda: safetensors.numpy.save_file(tensors, saved)))
