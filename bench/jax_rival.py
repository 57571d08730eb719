"""The benchmarks of bench/dispatch.R in JAX on the CPU. Prints medians as `name microseconds`."""

import statistics
import time

import jax
import jax.numpy as jnp
import numpy as np


def median_time(n, call):
    rounds = []
    for i in range(6):
        start = time.perf_counter()
        for _ in range(n):
            call()
        if i > 0:
            rounds.append((time.perf_counter() - start) * 1e6 / n)
    return statistics.median(rounds)


add = jax.jit(lambda x, y: x + y)
step = jax.jit(lambda x, y: x * y + x)
x = jnp.zeros((2, 2), jnp.float32)
a = jnp.zeros((100, 100), jnp.float32)
add(x, x).block_until_ready()
step(a, a).block_until_ready()


def chain():
    value = a
    for _ in range(1000):
        value = step(value, a)
    value.block_until_ready()


matrix = np.random.rand(1000, 1000).astype(np.float32)
big = jax.device_put(matrix)
print("execute", median_time(20000, lambda: add(x, x)))
print("execute_read", median_time(20000, lambda: np.asarray(add(x, x))))
print("scalar", median_time(20000, lambda: jax.device_put(1.0)))
print("chain_1000", median_time(1, chain))
print("upload_1e6_f32", median_time(20, lambda: jax.device_put(matrix).block_until_ready()))
print("download_1e6_f32", median_time(20, lambda: np.array(big)))
