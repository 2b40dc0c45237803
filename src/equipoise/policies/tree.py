"""A tournament tree: the least of n keys and a uniform choice among ties, O(log n) a change."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..rng import below

U = np.uintp


class Tree(NamedTuple):
    """A binary tree in arrays: node i has children 2i and 2i + 1, the leaves begin at `size`."""

    key: np.ndarray  # float64[2 size], the least key below each node
    tied: np.ndarray  # int64[2 size], how many leaves below have it
    size: int  # a power of two, at least n


def make_tree(keys: np.ndarray) -> Tree:
    """Return the tree of these keys, float64[n]."""
    size = 1 << max(0, int(len(keys) - 1).bit_length())
    key, tied = np.full(2 * size, np.inf), np.zeros(2 * size, np.int64)
    key[size : size + len(keys)] = keys
    tied[size : size + len(keys)] = 1
    half = size
    while half > 1:
        half //= 2
        left, right = key[2 * half : 4 * half : 2], key[2 * half + 1 : 4 * half : 2]
        key[half : 2 * half] = np.minimum(left, right)
        tied[half : 2 * half] = np.where(left <= right, tied[2 * half : 4 * half : 2], 0) + (
            np.where(right <= left, tied[2 * half + 1 : 4 * half : 2], 0)
        )
    return Tree(key, tied, size)


def set_key(tree, leaf, key):
    """Give a leaf another key."""
    node = leaf + tree.size
    tree.key[U(node)] = key
    node >>= 1
    while node >= 1:
        left, right = tree.key[U(2 * node)], tree.key[U(2 * node + 1)]
        tree.key[U(node)] = min(left, right)
        count = 0
        if left <= right:
            count += tree.tied[U(2 * node)]
        if right <= left:
            count += tree.tied[U(2 * node + 1)]
        tree.tied[U(node)] = count
        node >>= 1


def least(tree, rng):
    """Return a leaf with the least key, uniform among all that tie."""
    node, rank = 1, below(rng, tree.tied[1])
    while node < tree.size:
        node *= 2
        if tree.key[U(node)] > tree.key[U(node + 1)]:
            node += 1
        elif tree.key[U(node)] == tree.key[U(node + 1)] and rank >= tree.tied[U(node)]:
            rank -= tree.tied[U(node)]
            node += 1
    return node - tree.size
