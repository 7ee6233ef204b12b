"""Milliseconds of the Rust library for each text, on one thread: the median of some rounds. JSON in and out."""

import json
import statistics
import sys
import time

from tokenizers import Tokenizer


def main():
    given = json.load(sys.stdin)
    tokenizer = Tokenizer.from_file(given["path"])
    results = []
    for text in given["texts"]:
        tokenizer.encode(text, add_special_tokens=False)
        times = []
        for _ in range(given["rounds"]):
            began = time.perf_counter()
            ids = tokenizer.encode(text, add_special_tokens=False).ids
            times.append((time.perf_counter() - began) * 1000)
        results.append({"ms": statistics.median(times), "tokens": len(ids)})
    json.dump(results, sys.stdout)


main()
