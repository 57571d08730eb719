"""The benchmarks of bench/data.R in JAX on the CPU. Prints `name value`: median microseconds, or megabytes.

Data start and end in R's representation: doubles in Fortran order (complex doubles for c64). An upload converts them with
numpy's `astype()`, which keeps the order, and ends when the array on the device is ready. A download creates a new array
of doubles in Fortran order. `alias` rows pass a vector without conversion. `format` creates a Python string for each element.
"""

import resource
import statistics
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np

jax.config.update("jax_enable_x64", True)


def median_time(n, call, rounds=5):
    times = []
    for _ in range(rounds + 1):
        start = time.perf_counter()
        for _ in range(n):
            call()
        times.append((time.perf_counter() - start) * 1e6 / n)
    return statistics.median(times[1:])


def fresh_time(call, rounds=5):
    kept, times = [], []
    for _ in range(rounds):
        start = time.perf_counter()
        kept.append(call())
        times.append((time.perf_counter() - start) * 1e6)
    return statistics.median(times)


def upload(data, dtype):
    return jax.device_put(data.astype(dtype, copy=False)).block_until_ready()


def download(array, dtype=np.float64):
    return np.array(array, dtype=dtype, order="F")


def resident(field):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith(field))


def memory(what):
    matrix = np.asfortranarray(np.resize(np.random.randn(1000), (2000, 5000)))
    jax.device_put(1.0).block_until_ready()
    if what == "upload":
        with open("/proc/self/clear_refs", "w") as refs:
            refs.write("5")
        before = resident("VmRSS")
        array = upload(matrix, np.float32)
        print("upload_1e7_f32_stays", resident("VmRSS") - before)
        print("upload_1e7_f32_peak", resident("VmHWM") - before)
    else:
        array = upload(matrix, np.float32)
        add = jax.jit(lambda x, y: x + y)
        for _ in range(1000):
            value = add(array, array)
        value.block_until_ready()
        print("execute_1000_peak", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def times():
    tiny = jnp.zeros((2, 2), jnp.float32).block_until_ready()
    one = np.ones(1, np.float32)
    yield "scalar", median_time(5000, lambda: jax.device_put(1.0))
    yield "buffer_1", median_time(5000, lambda: jax.device_put(one))
    yield "shape", median_time(20000, lambda: tiny.shape)
    yield "elt_type", median_time(20000, lambda: tiny.dtype)
    yield "device", median_time(20000, lambda: tiny.device)
    yield "is_ready", median_time(20000, lambda: tiny.is_ready())
    yield "as_array_2x2", median_time(20000, lambda: download(tiny))

    m6 = np.asfortranarray(np.random.randn(1000, 1000))
    a6 = np.asfortranarray(m6.reshape(10, 10, 100, 100))
    c6 = np.asfortranarray(m6.astype(np.complex128))
    rows = [
        ("1e6_f32", m6, np.float32),
        ("1e6_f64", m6, np.float64),
        ("4d_f32", a6, np.float32),
        ("1e6_f16", m6, np.float16),
        ("1e6_bf16", m6, ml_dtypes.bfloat16),
        ("1e6_f8e4m3fn", m6, ml_dtypes.float8_e4m3fn),
        ("1e6_c64", c6, np.complex64),
    ]
    for name, data, dtype in rows:
        yield "upload_" + name, median_time(20, lambda: upload(data, dtype))
        array = upload(data, dtype)
        yield "download_" + name, median_time(20, lambda: download(array, data.dtype))
    yield "upload_1e6_f32_returns", median_time(20, lambda: jax.device_put(m6.astype(np.float32)))

    m7 = np.asfortranarray(np.resize(m6, (2000, 5000)))
    for name, dtype in [("f32", np.float32), ("f64", np.float64)]:
        yield f"upload_1e7_{name}_fresh", fresh_time(lambda: upload(m7, dtype))
        yield f"upload_1e7_{name}_warm", median_time(2, lambda: upload(m7, dtype))
    large = upload(m7, np.float32)
    yield "download_1e7_f32_warm", median_time(2, lambda: download(large))
    yield "download_1e7_f32_fresh", fresh_time(lambda: download(large))
    for name, data in [("f64", np.resize(m6, 10**7)), ("i32", np.ones(10**7, np.int32))]:
        yield "alias_1e7_" + name, median_time(2, lambda: upload(data, data.dtype))

    v8 = np.full(10**8, 1.5)
    returns, complete = [], []
    for _ in range(3):
        start = time.perf_counter()
        array = jax.device_put(v8.astype(np.float32))
        returns.append((time.perf_counter() - start) * 1e6)
        array.block_until_ready()
        complete.append((time.perf_counter() - start) * 1e6)
    yield "upload_1e8_f32_returns", statistics.median(returns)
    yield "upload_1e8_f32", statistics.median(complete)

    big = upload(m6, np.float32)
    yield "print_1e6", median_time(20, lambda: str(big))
    yield "format_1e6", median_time(1, lambda: ["%.8e" % x for x in np.asarray(big).ravel().tolist()], rounds=3)


if len(sys.argv) > 1:
    memory(sys.argv[1])
else:
    for name, value in times():
        print(name, value)
    for what in ["upload", "execute"]:
        print(subprocess.run([sys.executable, __file__, what], capture_output=True, text=True).stdout, end="")
