import { describe, expect, it } from "vitest";
import { detailed, HEAD, load, problemsOf } from "../../../test/support/config/fakes.cases.ts";

/** `reader: producer` for each reader of the prefix cache, in order. */
const readers = (text: string): string[] =>
  detailed(text).bindings.map(({ reader, producer }) => `${reader.name}: ${producer.name}`);

const TWO = `${HEAD}plugins:
- {name: fine, type: approx-prefix-cache-producer, parameters: {blockSizeTokens: 16}}
- {name: coarse, type: approx-prefix-cache-producer, parameters: {blockSizeTokens: 512}}
- {name: near, type: prefix-cache-scorer, parameters: {prefixMatchInfoProducerName: fine}}
- {name: far, type: prefix-cache-scorer, parameters: {prefixMatchInfoProducerName: coarse}}
- {name: any, type: prefix-cache-scorer}
`;

describe("several instances of a producer (scheduling 3.4)", () => {
  it("are read as parameters say, else the first one", () => {
    expect(readers(TWO)).toEqual(["near: fine", "far: coarse", "any: fine"]);
    expect(load(TWO).producers.map(({ name }) => name)).toEqual(["fine", "coarse"]);
    expect(load(TWO).warnings).toEqual([]);
  });

  it("are read by plugins that choose none as the instance that goes by its type, which is made where nobody writes", () => {
    expect(readers(`${TWO}- type: approx-prefix-cache-producer\n`)).toEqual([
      "near: fine",
      "far: coarse",
      "any: approx-prefix-cache-producer",
    ]);
    expect(readers(`${HEAD}plugins: [{type: prefix-cache-scorer}]`)).toEqual([
      "prefix-cache-scorer: approx-prefix-cache-producer",
    ]);
  });

  it("are bound for what the handler works with, too, which must read of the same one", () => {
    const stages = (decider: string) => `${HEAD}plugins:
- {name: fine, type: approx-prefix-cache-producer}
- {name: coarse, type: approx-prefix-cache-producer}
- {type: stage-handler, parameters: {deciders: {prefill: first}}}
- {name: first, type: prefix-decider, parameters: {after: second}}
- {name: second, type: prefix-decider, parameters: {${decider}}}
- {type: prefix-cache-scorer, parameters: {prefixMatchInfoProducerName: coarse}}
`;
    expect(readers(stages(""))).toEqual(["prefix-cache-scorer: coarse", "first: fine", "second: fine"]);
    expect(problemsOf(stages("prefixMatchInfoProducerName: coarse"))).toEqual([
      "c.yaml:7:3: plugins[3]: first reads prefix-matched-blocks of fine, but second of the same profile handler reads prefix-matched-blocks of coarse; name the same producer in both plugins",
    ]);
  });

  it("cause a warning when no plugin reads them although one could", () => {
    const text = `${HEAD}plugins:
- type: prefix-cache-scorer
- {name: a, type: approx-prefix-cache-producer}
- {name: b, type: approx-prefix-cache-producer}
`;
    expect(load(text).warnings).toEqual([
      "c.yaml:6:3: no plugin reads the producer b: prefix-cache-scorer reads prefix-matched-blocks from a; choose with the parameter of prefix-cache-scorer that ends in ProducerName",
    ]);
  });

  it("make no cycle unless what they read is bound so", () => {
    const cycle = `${HEAD}plugins:\n- type: hot-scorer\n- {name: a, type: hot-producer}\n- {name: b, type: cold-producer}\n`;
    expect(problemsOf(cycle)).toEqual([
      "c.yaml:5:3: plugins[1]: dependency cycle among producers: each reads data of the next producer: a -> b -> a",
    ]);
    // Nobody reads what b reads of a second instance of its own kind's reader.
    expect(() => load(`${HEAD}plugins: [{type: hot-scorer}, {type: hot-producer}]`)).not.toThrow();
  });
});
