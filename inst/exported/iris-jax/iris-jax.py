"""A network that classifies irises, for R: trained, and exported with its parameters, a training step and its loss.

    python iris-jax.py      reads iris.csv in the current folder, and writes the files there
"""

import jax
import jax.numpy as jnp
import numpy as np


def predict(params, x):
    hidden = jax.nn.relu(x @ params["hidden"]["w"] + params["hidden"]["b"])
    return jax.nn.log_softmax(hidden @ params["out"]["w"] + params["out"]["b"])


def loss(params, x, species):
    return -jnp.mean(jnp.take_along_axis(predict(params, x), species[:, None], axis=1))


def step(params, x, species, rate):
    value, slopes = jax.value_and_grad(loss)(params, x, species)
    params = jax.tree.map(lambda param, slope: param - rate * slope, params, slopes)
    return {"params": params, "loss": value}


def layer(key, rows, columns):
    return {"w": jax.random.normal(key, (rows, columns)) / 2, "b": jnp.zeros(columns)}


# trains
data = np.loadtxt("iris.csv", delimiter=",", skiprows=1)
x, species = data[:, :4].astype("float32"), data[:, 4].astype("int32")
params = {"hidden": layer(jax.random.key(1), 4, 8), "out": layer(jax.random.key(2), 8, 3)}
for _ in range(2000):
    params = jax.jit(step)(params, x, species, 0.1)["params"]

# exports
flowers = jax.ShapeDtypeStruct(jax.export.symbolic_shape("n, 4"), "float32")
exported = jax.export.export(jax.jit(predict), platforms=["cpu"])(params, flowers)
open("iris-predict.jaxexport", "wb").write(exported.serialize())
leaves = jax.tree.leaves_with_path(params)
np.savez("iris-params.npz", **{jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in leaves})

# exports a step of the training, which takes over the memory of the parameters
training = jax.export.export(jax.jit(step, donate_argnums=0), platforms=["cpu"])(params, x, species, 0.1)
open("iris-step.jaxexport", "wb").write(training.serialize())

# exports the loss with its derivative
losses = jax.export.export(jax.jit(loss), platforms=["cpu"])(params, x, species)
open("iris-loss.jaxexport", "wb").write(losses.serialize(vjp_order=1))
