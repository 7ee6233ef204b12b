import { describe, expect, it } from "vitest";
import {
  columnsOf,
  endpointOf,
  instanceOf,
  produceContextOf,
  requestOf,
  scoresOf,
} from "../../../../../test/support/scheduling/fakes.cases.ts";
import { MEDIA_MATCHED_ITEMS, MEDIA_TOTAL_ITEMS } from "../../../../base/plugin/keys.ts";
import { MediaHasher } from "./media-hash.ts";
import { type MediaCaches, mmEmbeddingsCacheProducer, mmEmbeddingsCacheScorer } from "./mm-embeddings-cache.ts";

const ENDPOINTS = [endpointOf(0), endpointOf(1), endpointOf(2)];
const NO_OTHERS = new Map();

/** A chat with these images; the range is that of its messages. */
function chat(...urls: string[]) {
  const content = urls.map((url) => ({ type: "image_url", image_url: { url } }));
  const text = JSON.stringify([{ role: "user", content: [{ type: "text", text: "what is it" }, ...content] }]);
  return requestOf(text);
}

function cachesOf(parameters: object = {}) {
  const producer = instanceOf(mmEmbeddingsCacheProducer, parameters) as MediaCaches;
  const look = (request: ReturnType<typeof chat>): number[][] => {
    const columns = columnsOf(ENDPOINTS, [
      [MEDIA_MATCHED_ITEMS, []],
      [MEDIA_TOTAL_ITEMS, []],
    ]);
    producer.produce(produceContextOf(columns, request));
    const read = (key: typeof MEDIA_MATCHED_ITEMS) => [...columns.column(key).slice(0, ENDPOINTS.length)];
    return [read(MEDIA_MATCHED_ITEMS), read(MEDIA_TOTAL_ITEMS)];
  };
  const send = (slot: number, ...urls: string[]): void => {
    const request = chat(...urls);
    look(request);
    producer.routed(request, ENDPOINTS[slot]!, NO_OTHERS);
  };
  return { producer, look, send };
}

describe("mm-embeddings-cache-producer (scheduling 3.10.5)", () => {
  it("counts the items of a request that an endpoint was sent before", () => {
    const { look, send } = cachesOf();
    send(1, "https://a/1.png", "https://a/2.png");
    send(2, "https://a/2.png");
    expect(look(chat("https://a/1.png", "https://a/2.png", "https://a/3.png"))).toEqual([
      [0, 2, 1],
      [3, 3, 3],
    ]);
    // One item that is there twice is one item.
    expect(look(chat("https://a/1.png", "https://a/1.png"))).toEqual([
      [0, 1, 0],
      [1, 1, 1],
    ]);
    expect(look(requestOf("only text"))).toEqual([
      [0, 0, 0],
      [0, 0, 0],
    ]);
  });

  it("forgets the items that were not used for longest, 2 MiB each", () => {
    for (const parameters of [{ cacheSizeInMBPerServer: 4 }, { cacheSizeInMB: 5 }]) {
      const { look, send } = cachesOf(parameters);
      send(0, "a");
      send(0, "b");
      send(0, "a");
      send(0, "c");
      expect(["a", "b", "c"].map((url) => look(chat(url))[0]![0])).toEqual([1, 0, 1]);
    }
    const { look, send } = cachesOf({ cacheSizeInMBPerServer: 1 });
    send(0, "a", "b");
    expect(look(chat("a", "b"))[0]![0]).toBe(1);
  });

  it("remembers nothing of a refused request, nor of an endpoint that left", () => {
    const { producer, look, send } = cachesOf();
    const refused = chat("x");
    look(refused);
    producer.refused();
    producer.routed(refused, ENDPOINTS[0]!, NO_OTHERS);
    expect(look(chat("x"))[0]).toEqual([0, 0, 0]);
    send(0, "y");
    producer.endpointRemoved(ENDPOINTS[0]!);
    expect(look(chat("y"))[0]).toEqual([0, 0, 0]);
  });

  it("remembers the encode endpoint, too, and no other one", () => {
    const { producer, look } = cachesOf();
    const request = chat("z");
    look(request);
    producer.routed(
      request,
      ENDPOINTS[0]!,
      new Map([
        ["encode", ENDPOINTS[1]!],
        ["prefill", ENDPOINTS[2]!],
      ]),
    );
    expect(look(chat("z"))[0]).toEqual([1, 1, 0]);
  });

  it("counts its look-ups once", () => {
    const { producer, look, send } = cachesOf();
    send(1, "a", "b");
    look(chat("a", "c"));
    const { queries, hits, ratios } = producer.takeLookups();
    expect([...queries]).toEqual([["image", 4]]);
    expect([...hits]).toEqual([["image\ndefault/pod-1", 1]]);
    expect([...ratios]).toEqual([
      [0, 5],
      [0.5, 1],
    ]);
    expect(producer.takeLookups().queries.size).toBe(0);
    expect(producer.debugState()).toEqual({ pods: [{ pod: "default/pod-1", items: 2 }], totalPods: 1, maxPods: 100 });
  });
});

describe("the hash of an item", () => {
  const hasher = new MediaHasher(1, 2);
  const hashOf = (url: string) => hasher.items(chat(url))[0]!.hash;
  const long = (middle: string) => `data:image/png;base64,${"A".repeat(200_000)}${middle}${"B".repeat(200_000)}`;

  it("tells long data apart by length and content", () => {
    expect(hashOf(long("CCCC"))).toBe(hashOf(long("CCCC")));
    expect(hashOf(long("CCCC"))).not.toBe(hashOf(long("CCCCCCCC")));
    expect(hashOf(long("C".repeat(4096)))).not.toBe(hashOf(long("D".repeat(4096))));
    expect(hashOf(`${long("C")}x`)).not.toBe(hashOf(`${long("C")}y`));
  });
});

describe("mm-embeddings-cache-scorer (scheduling 3.9)", () => {
  const scores = (matched: number[], total: number) =>
    scoresOf(
      mmEmbeddingsCacheScorer,
      columnsOf(ENDPOINTS, [
        [MEDIA_MATCHED_ITEMS, matched],
        [MEDIA_TOTAL_ITEMS, matched.map(() => total)],
      ]),
    );

  it("is the share of the items, and 0 without any", () => {
    expect(scores([0, 2, 4], 4)).toEqual([0, 0.5, 1]);
    expect(scores([0, 0, 0], 0)).toEqual([0, 0, 0]);
  });
});
