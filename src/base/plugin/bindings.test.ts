import { describe, expect, it } from "vitest";
import { z } from "zod";
import { companionName, writerFor } from "./bindings.ts";
import { defineProducer, defineScorer } from "./define.ts";
import { attributeKey, columnKey } from "./keys.ts";

const HITS = columnKey("hits");
const LOAD = columnKey("load");
const WHO = attributeKey<string>("who");
const produce = () => ({ produce() {} });

const hits = defineProducer({ type: "hits-producer", describe: "Hits.", produces: [HITS, WHO], create: produce });
const exact = defineProducer({ type: "exact-producer", describe: "Hits.", produces: [HITS], create: produce });
const load = defineProducer({ type: "load-producer", describe: "Load.", produces: [LOAD], create: produce });
const scorer = defineScorer({
  type: "hits-scorer",
  describe: "Hits.",
  parameters: z.object({}),
  requires: [HITS, WHO],
  create: () => ({ score() {} }),
});
const reader = (parameters: unknown = {}) => ({ definition: scorer, name: "reader", parameters });
const producer = (definition: typeof hits, name = definition.type) => ({ definition, name, parameters: {} });

describe("writerFor", () => {
  const file = [producer(load), producer(hits, "far"), producer(hits, "near"), producer(hits), producer(exact)];

  it("takes the instance that a parameter names, wherever it stands", () => {
    expect(writerFor(HITS, reader({ hitsProducerName: "near" }), file)?.name).toBe("near");
    expect(writerFor(HITS, reader({ someOtherProducerName: "exact-producer" }), file)?.name).toBe("exact-producer");
    expect(writerFor(WHO, reader({ hitsProducerName: "near" }), file)?.name).toBe("near");
  });

  it("falls back to the writer that goes by its type, then to the first one", () => {
    expect(writerFor(HITS, reader(), file)?.name).toBe("hits-producer");
    expect(writerFor(HITS, reader({ hitsProducerName: "" }), file)?.name).toBe("hits-producer");
    expect(writerFor(HITS, reader(), file.slice(0, 3))?.name).toBe("far");
  });

  it("takes the one that came along with the plugin, unless a parameter names another", () => {
    const along = [...file, producer(hits, companionName("hits-producer", "reader"))];
    expect(writerFor(HITS, reader(), along)?.name).toBe("hits-producer-of-reader");
    expect(writerFor(HITS, { ...reader(), name: "other" }, along)?.name).toBe("hits-producer");
    expect(writerFor(HITS, reader({ hitsProducerName: "near" }), along)?.name).toBe("near");
  });

  it("passes over a named producer that does not write the key, and parameters that mean something else", () => {
    expect(writerFor(LOAD, reader({ hitsProducerName: "near" }), file)?.name).toBe("load-producer");
    expect(writerFor(WHO, reader({ hitsProducerName: "exact-producer" }), file)?.name).toBe("hits-producer");
    expect(writerFor(HITS, reader({ note: "near", producerNames: ["near"] }), file)?.name).toBe("hits-producer");
  });

  it("says when nobody writes the key", () => {
    expect(writerFor(LOAD, reader(), [producer(hits)])).toBeUndefined();
    expect(writerFor(HITS, reader(undefined), [])).toBeUndefined();
  });
});
