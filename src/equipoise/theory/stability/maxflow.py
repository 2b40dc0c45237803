"""Maximum flow with real capacities, and the cut that proves it: Dinic's algorithm.

Each phase finds the distances from the source in what is left (breadth first), then sends flow
along shortest paths until none is left (depth first with a pointer per node). Every path fills one
arc exactly, so rounding cannot keep the loop going; what is left of an arc below `tiny` counts as
nothing. At most `nodes` phases; about two on the networks of sampling laws, which have three
layers. (scipy's maximum_flow takes whole numbers only.)
"""

from __future__ import annotations


class Network:
    """A directed network; arcs are added once, flow is sent once.

    Arc e and its reverse e ^ 1 are stored side by side; `left[e]` is the capacity that remains.
    """

    def __init__(self, nodes: int, tiny: float = 0.0) -> None:
        self.arcs: list[list[int]] = [[] for _ in range(nodes)]  # arcs that leave each node
        self.head: list[int] = []  # node each arc enters
        self.left: list[float] = []
        self.tiny = tiny

    def add(self, tail: int, head: int, capacity: float) -> None:
        """Add an arc; `capacity` >= 0, may be infinite."""
        for node, other, room in ((tail, head, capacity), (head, tail, 0.0)):
            self.arcs[node].append(len(self.head))
            self.head.append(other)
            self.left.append(room)

    def send(self, source: int, sink: int) -> float:
        """Send as much as fits from source to sink and return how much that is."""
        total = 0.0
        while True:
            level = self._levels(source)
            if level[sink] < 0:
                return total
            pointer = [0] * len(self.arcs)
            while (sent := self._path(source, sink, level, pointer)) > 0:
                total += sent

    def reached(self, source: int) -> list[bool]:
        """Return which nodes can still be reached: the source side of the smallest minimum cut."""
        return [level >= 0 for level in self._levels(source)]

    def _levels(self, source: int) -> list[int]:
        level = [-1] * len(self.arcs)
        level[source] = 0
        queue = [source]
        for node in queue:
            for arc in self.arcs[node]:
                other = self.head[arc]
                if level[other] < 0 and self.left[arc] > self.tiny:
                    level[other] = level[node] + 1
                    queue.append(other)
        return level

    def _path(self, source: int, sink: int, level: list[int], pointer: list[int]) -> float:
        """Fill one shortest path and return what went through, 0 if there is none."""
        path: list[int] = []
        node = source
        while node != sink:
            arcs = self.arcs[node]
            while pointer[node] < len(arcs):
                arc = arcs[pointer[node]]
                other = self.head[arc]
                if self.left[arc] > self.tiny and level[other] == level[node] + 1:
                    path.append(arc)
                    node = other
                    break
                pointer[node] += 1
            else:
                if not path:
                    return 0.0
                node = self.head[path.pop() ^ 1]  # a dead end: back, and past the arc that led here
                pointer[node] += 1
        sent = min(self.left[arc] for arc in path)
        for arc in path:
            self.left[arc] -= sent
            self.left[arc ^ 1] += sent
        return sent
