"""Times sides of a comparison: CUDA graphs of many launches, replayed in turn, the memory cold.

No launch finds its bytes in the L2 cache: the cache is emptied before each replay, by reading four
times its size, and within a replay the sets of tensors either come once, or together are four
times as large as the cache. `Memory.ROTATED` is the milder rule of older figures: at most 64 sets in
turn and no emptying, so that small tensors stay in the cache.
"""

import dataclasses
import enum
import statistics
import typing

import torch

MOST_LAUNCHES = 200
ROTATED_SETS = 64
COLD_FACTOR = 4
TRAFFIC_OF_REPLAY = 6 << 30  # bytes: about 1.5 ms
WARM_UP_ROUNDS = 2


class Memory(enum.Enum):
    COLD = "cold"
    ROTATED = "rotated"


@dataclasses.dataclass
class Side:
    name: str
    launch: typing.Callable[[int], None]  # the index of a set; into the timer's stream
    sets: int
    launches: int
    bytes: int  # that have to come from memory and go there


class Comparison:
    """Microseconds of a launch of each side, by round; a round has every side once."""

    def __init__(self, sides):
        self.bytes = {side.name: side.bytes for side in sides}
        self.times = {side.name: [] for side in sides}

    def us(self, name):
        return statistics.median(self.times[name])

    def rate(self, name):
        """Bytes a second."""
        return self.bytes[name] / self.us(name) * 1e6

    def ratio(self, name, base):
        """Time over the base's time: the median over the rounds."""
        return statistics.median(a / b for a, b in zip(self.times[name], self.times[base]))

    def ratio_per_byte(self, name, base):
        return self.ratio(name, base) * self.bytes[base] / self.bytes[name]

    def difference(self, name, base):
        """Microseconds more than the base: the median over the rounds."""
        return statistics.median(a - b for a, b in zip(self.times[name], self.times[base]))

    def fastest(self, names):
        """Of those that were measured; None where none was."""
        return min((name for name in names if name in self.times), key=self.us, default=None)


class Timer:
    def __init__(self, baselines, rounds):
        self.baselines, self.rounds = baselines, rounds
        self.stream = torch.cuda.Stream()
        self.l2_bytes = torch.cuda.get_device_properties(0).L2_cache_size
        self.cold = torch.zeros(COLD_FACTOR * self.l2_bytes, dtype=torch.uint8, device="cuda")
        self.sink = torch.zeros(16, dtype=torch.uint8, device="cuda")

    def repetition(self, set_bytes, memory=Memory.COLD):
        """(sets, launches) for sets of so many bytes."""
        sets = COLD_FACTOR * self.l2_bytes // set_bytes + 1
        launches = min(MOST_LAUNCHES, TRAFFIC_OF_REPLAY // set_bytes + 1)
        if memory is Memory.ROTATED:
            return min(sets, ROTATED_SETS), max(launches, min(sets, ROTATED_SETS))
        if sets >= MOST_LAUNCHES:
            return MOST_LAUNCHES, MOST_LAUNCHES
        return sets, max(launches, sets)

    def compare(self, sides, memory=Memory.COLD):
        comparison = Comparison(sides)
        torch.cuda.synchronize()  # the tensors were filled in another stream
        with torch.cuda.stream(self.stream):
            graphs = [self.capture(side) for side in sides]
            for turn in range(WARM_UP_ROUNDS + self.rounds):
                for offset in range(len(sides)):
                    index = (turn + offset) % len(sides)
                    microseconds = self.replay(graphs[index], memory) / sides[index].launches
                    if turn >= WARM_UP_ROUNDS:
                        comparison.times[sides[index].name].append(microseconds)
        return comparison

    def capture(self, side):
        side.launch(0)  # compiles and loads
        self.stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        graph.capture_begin(capture_error_mode="thread_local")
        for launch in range(side.launches):
            side.launch(launch % side.sets)
        graph.capture_end()
        return graph

    def replay(self, graph, memory):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        if memory is Memory.COLD:
            # The device is busy with this while the replay is queued, so no gap is measured.
            self.baselines.read(self.cold, self.sink, self.stream)
        start.record(self.stream)
        graph.replay()
        end.record(self.stream)
        end.synchronize()
        return start.elapsed_time(end) * 1e3
