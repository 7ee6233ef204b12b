"""An engine that publishes KV-cache events, with the packages and the classes that vLLM uses: pyzmq and msgspec.

Reads one JSON command a line, and answers each with one JSON line.
"""

import itertools
import json
import sys
import threading
import time
from collections import deque
from typing import Any, Optional, Union

import msgspec
import zmq

END = (-1).to_bytes(8, "big", signed=True)


def forms(array_like: bool):
    """The classes of events, as lists or as maps."""

    class EventBatch(msgspec.Struct, array_like=array_like, omit_defaults=True, gc=False):
        ts: float
        events: list[Any]
        data_parallel_rank: Optional[int] = None

    class KVCacheEvent(msgspec.Struct, array_like=array_like, omit_defaults=True, gc=False, tag=True):
        pass

    class BlockStored(KVCacheEvent):
        block_hashes: list[Union[int, bytes]]
        parent_block_hash: Optional[Union[int, bytes]]
        token_ids: list[int]
        block_size: int
        lora_id: Optional[int] = None
        medium: Optional[str] = None
        lora_name: Optional[str] = None
        extra_keys: Optional[list[Any]] = None
        group_idx: Optional[int] = None
        kv_cache_spec_kind: Optional[str] = None
        kv_cache_spec_sliding_window: Optional[int] = None

    class BlockRemoved(KVCacheEvent):
        block_hashes: list[Union[int, bytes]]
        medium: Optional[str] = None
        group_idx: Optional[int] = None

    class AllBlocksCleared(KVCacheEvent):
        pass

    return EventBatch, {c.__name__: c for c in (BlockStored, BlockRemoved, AllBlocksCleared)}


class Engine:
    def __init__(self, options):
        self.topic = options.get("topic", "").encode()
        self.bytes = options.get("hashes") == "bytes"
        self.batch, self.events = forms(options.get("form", "array") == "array")
        self.encoder = msgspec.msgpack.Encoder()
        self.context = zmq.Context()
        self.publisher = self.context.socket(zmq.PUB)
        self.publisher.set_hwm(options.get("hwm", 100_000))
        if options.get("connect"):
            self.publisher.connect(options["connect"])
        else:
            self.publisher.bind(options["publish"])
        self.buffer = deque(maxlen=options.get("buffer", 10_000))
        self.sequence = itertools.count()
        self.silent = False
        if options.get("replay"):
            self.router = self.context.socket(zmq.ROUTER)
            self.router.bind(options["replay"])
            threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            frames = self.router.recv_multipart()
            if len(frames) != 3 or self.silent:
                continue
            client, _, start = frames
            start = int.from_bytes(start, "big")
            for sequence, payload in list(self.buffer):
                if sequence >= start:
                    self.router.send_multipart((client, b"", sequence.to_bytes(8, "big"), payload))
            self.router.send_multipart((client, b"", END, b""))

    def hash(self, value):
        if value is None or not self.bytes:
            return value
        return b"\x5a" * 24 + (value % 2**64).to_bytes(8, "big")

    def event(self, given):
        given = dict(given)
        kind = self.events[given.pop("type")]
        if "block_hashes" in given:
            given["block_hashes"] = [self.hash(value) for value in given["block_hashes"]]
        if "parent_block_hash" in given:
            given["parent_block_hash"] = self.hash(given["parent_block_hash"])
        return kind(**given)

    def send(self, command):
        events = [self.event(event) for event in command["events"]]
        payload = self.encoder.encode(self.batch(time.time(), events, command.get("rank")))
        sequence = next(self.sequence)
        if not command.get("forget"):
            self.buffer.append((sequence, payload))
        if not command.get("lose"):
            topic = command.get("topic", "").encode() or self.topic
            self.publisher.send_multipart((topic, sequence.to_bytes(8, "big"), payload))
        return {"sequence": sequence}

    def raw(self, command):
        self.publisher.send_multipart([bytes.fromhex(frame) for frame in command["frames"]])
        return {}

    def restart(self, command):
        self.sequence = itertools.count()
        self.buffer.clear()
        return {}

    def mute(self, command):
        """Replay requests get no answer."""
        self.silent = command["silent"]
        return {}

    def flood(self, command):
        """Sends events of one block each, `rate` a second, ten to a message."""
        size, number = command["block_size"], command.get("first", 1)
        started, sent = time.perf_counter(), 0
        total = int(command["rate"] * command["seconds"])
        stored = self.events["BlockStored"]
        while sent < total:
            events = []
            for _ in range(10):
                tokens = [(number * 7 + i) % 150_000 for i in range(size)]
                events.append(stored([self.hash(number)], None, tokens, size))
                number += 1
            payload = self.encoder.encode(self.batch(time.time(), events))
            self.publisher.send_multipart((self.topic, next(self.sequence).to_bytes(8, "big"), payload))
            sent += 10
            ahead = sent / command["rate"] - (time.perf_counter() - started)
            if ahead > 0.002:
                time.sleep(ahead)
        return {"sent": sent, "seconds": time.perf_counter() - started}


def main():
    engine = Engine(json.loads(sys.argv[1]))
    commands = {"send": engine.send, "raw": engine.raw, "restart": engine.restart, "mute": engine.mute, "flood": engine.flood}
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        command = json.loads(line)
        print(json.dumps(commands[command.pop("do")](command)), flush=True)


main()
