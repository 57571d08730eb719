"""The rival of bench/mpi.R: jax.distributed with gloo, on CPUs.

    python jax_mpi.py RANK SIZE PORT ROWS

Prints the seconds of an all-reduce (psum) of 1 MB and of 64 MB, and of a step of logistic regression on ROWS rows."""

import statistics
import sys
import time

import jax

rank, size, port, rows = map(int, sys.argv[1:5])
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(f"127.0.0.1:{port}", size, rank)

import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

try:
    from jax import shard_map
except ImportError:
    from jax.experimental.shard_map import shard_map

mesh = Mesh(np.array(jax.devices()), ("i",))


def spread(own):
    """One array of the parts of all processes."""
    sharding = NamedSharding(mesh, P("i"))
    return jax.make_array_from_process_local_data(sharding, own)


def parallel(f, n):
    return jax.jit(shard_map(f, mesh=mesh, in_specs=(P("i"),) * n, out_specs=P("i")))


def median_time(f, times, rounds=9):
    seconds = []
    for i in range(rounds + 1):
        start = time.perf_counter()
        for _ in range(times):
            f()
        seconds.append((time.perf_counter() - start) / times)
    return statistics.median(seconds[1:])


reduce = parallel(lambda x: jax.lax.psum(x, "i"), 1)
found = []
for megabytes, times in ((1, 20), (64, 2)):
    x = spread(np.ones(megabytes * 2**18, np.float32))
    found.append(median_time(lambda: reduce(x).block_until_ready(), times))

x = spread(np.random.default_rng(rank).normal(size=(rows, 32)).astype(np.float32))
y = spread(np.ones((rows, 1), np.float32))


def step(x, y, w):
    p = 1 / (1 + jnp.exp(-(x @ w)))
    return w - jax.lax.psum(x.T @ (p - y), "i") * 1e-6


one_step = parallel(step, 3)
w = spread(np.zeros((32, 1), np.float32))


def run_step():
    global w
    w = one_step(x, y, w)
    w.block_until_ready()


found.append(median_time(run_step, 5))
if rank == 0:
    print(*found)
