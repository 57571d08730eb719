"""The benchmarks of bench/cache.R in JAX on the CPU, with its persistent cache. Prints medians as `name microseconds`."""

import statistics
import tempfile
import time

import jax
import jax.numpy as jnp


def loss(p, x, y):
    h = jnp.tanh(x @ p[0] + p[1])
    h = jnp.tanh(h @ p[2] + p[3])
    return jnp.mean(-jnp.sum(jax.nn.log_softmax(h @ p[4] + p[5]) * y, axis=1))


def mlp_step(p, x, y, rate):
    value, gradient = jax.value_and_grad(loss)(p, x, y)
    return [a - rate * b for a, b in zip(p, gradient)], value


def floats(*shape):
    return jax.ShapeDtypeStruct(shape, jnp.float32)


weights = [floats(784, 256), floats(256), floats(256, 128), floats(128), floats(128, 10), floats(10)]
programs = {
    "add": (lambda x, y: x + y, (floats(2, 2), floats(2, 2))),
    "mlp": (mlp_step, (weights, floats(64, 784), floats(64, 10), floats())),
}


def median_time(name, rounds):
    function, arguments = programs[name]
    times = []
    for _ in range(rounds):
        jax.clear_caches()
        lowered = jax.jit(function).lower(*arguments)
        start = time.perf_counter()
        lowered.compile()
        times.append((time.perf_counter() - start) * 1e6)
    return statistics.median(times[1:])


for name in programs:
    print(name + "_compile", median_time(name, 11))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
jax.config.update("jax_compilation_cache_dir", tempfile.mkdtemp())
for name in programs:
    print(name + "_hit", median_time(name, 21))
