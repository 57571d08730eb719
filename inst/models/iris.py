"""Trains a small network that classifies irises by species, with NumPy, and saves it as a safetensors file.

    python iris.py iris.csv FOLDER

reads R's data set, as written by write.csv(iris, "iris.csv", row.names = FALSE), and creates in FOLDER

    iris.safetensors        the network's weights, with the means and scales of its inputs
    iris-probabilities.csv  the network's probabilities for every tenth flower
"""

import csv
import pathlib
import sys

import numpy as np
from safetensors.numpy import save_file

HIDDEN = 8
STEPS = 1000
RATE = 0.2
MOMENTUM = 0.9


def read(path):
    """The measurements as a 150 x 4 matrix, each flower's species as a number, and the names of the species."""
    with open(path, newline="") as file:
        rows = list(csv.reader(file))[1:]
    species = sorted({row[4] for row in rows})
    return np.array([row[:4] for row in rows], float), np.array([species.index(row[4]) for row in rows]), species


def forward(x, net):
    """The hidden layer, and the probability of each species."""
    hidden = np.maximum((x - net["input.mean"]) / net["input.scale"] @ net["hidden.weight"] + net["hidden.bias"], 0)
    scores = hidden @ net["output.weight"] + net["output.bias"]
    odds = np.exp(scores - scores.max(axis=1, keepdims=True))
    return hidden, odds / odds.sum(axis=1, keepdims=True)


def train(x, labels, classes):
    """Gradient descent with momentum on the mean cross-entropy of all flowers."""
    random = np.random.RandomState(1)
    net = {
        "input.mean": x.mean(axis=0),
        "input.scale": x.std(axis=0),
        "hidden.weight": random.normal(size=(x.shape[1], HIDDEN)) / 2,
        "hidden.bias": np.zeros(HIDDEN),
        "output.weight": random.normal(size=(HIDDEN, classes)) / 2,
        "output.bias": np.zeros(classes),
    }
    scaled = (x - net["input.mean"]) / net["input.scale"]
    velocity = {name: np.zeros_like(value) for name, value in net.items()}
    for _ in range(STEPS):
        hidden, probabilities = forward(x, net)
        error = (probabilities - np.eye(classes)[labels]) / len(x)
        back = error @ net["output.weight"].T * (hidden > 0)
        gradient = {
            "hidden.weight": scaled.T @ back,
            "hidden.bias": back.sum(axis=0),
            "output.weight": hidden.T @ error,
            "output.bias": error.sum(axis=0),
        }
        for name, slope in gradient.items():
            velocity[name] = MOMENTUM * velocity[name] - RATE * slope
            net[name] = net[name] + velocity[name]
    return {name: value.astype(np.float32) for name, value in net.items()}


def main(data, folder):
    x, labels, species = read(data)
    net = train(x, labels, len(species))
    folder = pathlib.Path(folder)
    save_file(net, folder / "iris.safetensors", metadata={"classes": ",".join(species)})
    _, probabilities = forward(x.astype(np.float32), net)
    right = (probabilities.argmax(axis=1) == labels).sum()
    print(f"{right} of {len(labels)} flowers are classified correctly")
    with open(folder / "iris-probabilities.csv", "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["flower", *species])
        for flower in range(0, len(x), 10):
            writer.writerow([flower + 1, *(f"{p:.9g}" for p in probabilities[flower])])


if __name__ == "__main__":
    main(*sys.argv[1:])
