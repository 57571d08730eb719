"""A small transformer that spells the names of the months, in the layout of Hugging Face's files.

    pip install jax optax flatbuffers safetensors
    python transformer.py     writes the folder months and months.jaxexport

The weights have GPT-2's names. lm_head.weight is tied to transformer.wte.weight.
"""

import json
import os

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import export
from safetensors.numpy import save_file

HEADS, WIDTH, LAYERS, LENGTH, TOKENS = 2, 16, 2, 12, 27


def norm(params, x):
    x = (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)
    return x * params["weight"] + params["bias"]


def linear(params, x):
    return x @ params["weight"] + params["bias"]


def attention(params, x):
    batch, time, _ = x.shape
    heads = [part.reshape(batch, time, HEADS, -1) for part in jnp.split(linear(params["c_attn"], x), 3, axis=-1)]
    scores = jnp.einsum("bqhd,bkhd->bhqk", heads[0], heads[1]) / np.sqrt(WIDTH / HEADS)
    past = jnp.arange(time)[:, None] >= jnp.arange(time)[None, :]
    mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(jnp.where(past, scores, -1e9)), heads[2])
    return linear(params["c_proj"], mixed.reshape(batch, time, WIDTH))


def logits(params, tokens):
    model = params["transformer"]
    x = model["wte"]["weight"][tokens] + model["wpe"]["weight"][jnp.arange(tokens.shape[1])]
    for block in model["h"]:
        x = x + attention(block["attn"], norm(block["ln_1"], x))
        x = x + linear(block["mlp"]["c_proj"], jax.nn.gelu(linear(block["mlp"]["c_fc"], norm(block["ln_2"], x))))
    return norm(model["ln_f"], x) @ params["lm_head"]["weight"].T


def new_params():
    random = np.random.default_rng(1)

    def dense(rows, columns):
        weight = random.normal(0, 0.1, (rows, columns)).astype("float32")
        return {"weight": weight, "bias": np.zeros(columns, "float32")}

    def block():
        return {
            "ln_1": scale(),
            "attn": {"c_attn": dense(WIDTH, 3 * WIDTH), "c_proj": dense(WIDTH, WIDTH)},
            "ln_2": scale(),
            "mlp": {"c_fc": dense(WIDTH, 4 * WIDTH), "c_proj": dense(4 * WIDTH, WIDTH)},
        }

    def scale():
        return {"weight": np.ones(WIDTH, "float32"), "bias": np.zeros(WIDTH, "float32")}

    def table(rows):
        return {"weight": dense(rows, WIDTH)["weight"]}

    return {"wte": table(TOKENS), "wpe": table(LENGTH), "h": [block() for _ in range(LAYERS)], "ln_f": scale()}


def tied(model):
    return {"transformer": model, "lm_head": model["wte"]}


# trains: token 0 is the start and the end, 1 to 26 are letters
months = "january february march april may june july august september october november december".split()
text = np.zeros((len(months), LENGTH + 1), "int32")
for row, month in zip(text, months):
    row[1 : len(month) + 1] = [ord(letter) - ord("a") + 1 for letter in month]


def mean_loss(model):
    scores = logits(tied(model), text[:, :-1])
    return optax.softmax_cross_entropy_with_integer_labels(scores, text[:, 1:]).mean()


@jax.jit
def step(model, state):
    updates, state = optimizer.update(jax.grad(mean_loss)(model), state)
    return optax.apply_updates(model, updates), state


optimizer = optax.adam(0.005)
model = new_params()
state = optimizer.init(model)
for _ in range(1500):
    model, state = step(model, state)

# exports the function, for any number of texts of any length
tokens = jax.ShapeDtypeStruct(export.symbolic_shape("b, t"), "int32")
exported = export.export(jax.jit(logits), platforms=["cpu"])(tied(model), tokens)
open("months.jaxexport", "wb").write(exported.serialize())

# saves the weights in two files, with an index
leaves = jax.tree.leaves_with_path({"transformer": model})
flat = {jax.tree_util.keystr(path, simple=True, separator="."): np.asarray(leaf) for path, leaf in leaves}
place = {name: f"model-0000{1 if '.h.0.' in name else 2}-of-00002.safetensors" for name in flat}
os.makedirs("months", exist_ok=True)
for file in sorted(set(place.values())):
    save_file({name: flat[name] for name in flat if place[name] == file}, f"months/{file}", metadata={"format": "pt"})
metadata = {"total_size": sum(leaf.nbytes for leaf in flat.values()), "lm_head.weight": "transformer.wte.weight"}
with open("months/model.safetensors.index.json", "w") as index:
    json.dump({"metadata": metadata, "weight_map": place}, index, indent=2)
