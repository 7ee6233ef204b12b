import { expect, it } from "vitest";
import {
  countBy,
  idsOf,
  mean,
  playNamed,
  quantile,
} from "../../../../test/support/simulator/workloads/workloads.cases.ts";

/** Tokens of a block of Mooncake's traces. */
const BLOCK = 512;
/** As in Mooncake's trace, whose requests come within an hour. */
const RATE = 6.67;
const TWENTY_MINUTES = 1_200_000;

/** Keys of the whole blocks of a prompt, each of its block and all before it. */
function blockKeys(prompt: Uint8Array): string[] {
  const ids = idsOf(prompt);
  const keys: string[] = [];
  let a = 0x811c9dc5;
  let b = 0x9747b28c;
  for (let at = 0; at < ids.length; ) {
    a = Math.imul(a ^ ids[at]!, 0x01000193);
    b = Math.imul(b ^ ids[at]!, 0x5bd1e995) + 1;
    if (++at % BLOCK === 0) keys.push(`${a} ${b}`);
  }
  return keys;
}

it("the tool-calls workload has the figures that are published of Mooncake's trace of tools and agents", () => {
  const inputs: number[] = [];
  const outputs: number[] = [];
  const kinds: string[] = [];
  const firsts: string[] = [];
  const seen = new Set<string>();
  const blocks = { all: 0, seen: 0 };
  playNamed("tool-calls", {
    ...{ rate: RATE, durationMs: TWENTY_MINUTES, keep: false, answers: () => 3000 },
    saw({ prompt, outputTokens, kind }) {
      inputs.push(prompt.length / 4);
      outputs.push(outputTokens);
      kinds.push(kind!);
      const keys = blockKeys(prompt);
      const unseen = keys.findIndex((key) => !seen.has(key));
      blocks.all += keys.length;
      blocks.seen += unseen < 0 ? keys.length : unseen;
      for (const key of keys) seen.add(key);
      if (keys.length > 0) firsts.push(keys[0]!);
    },
  });
  const near = (value: number, published: number, share: number) =>
    expect(Math.abs(value / published - 1), `${value} is not ${published}`).toBeLessThan(share);
  near(inputs.length / (TWENTY_MINUTES / 1000), RATE, 0.05);
  // Published by the authors: the means, and a cache ratio of 59 %, which others measure as 55.3 %.
  near(mean(inputs), 8596, 0.05);
  near(mean(outputs), 182, 0.08);
  near(blocks.seen / blocks.all, 0.553, 0.05);
  // Measured of the trace by others.
  near(quantile(inputs, 0.5), 6346, 0.05);
  near(quantile(inputs, 0.9), 16_810, 0.15);
  near(quantile(inputs, 0.99), 61_525, 0.25);
  near(quantile(outputs, 0.5), 30, 0.2);
  const shares = [...countBy(firsts, (key) => key).values()].toSorted((x, y) => y - x);
  expect(shares).toHaveLength(3);
  for (const [at, published] of [10_938, 9203, 3449].entries())
    near(shares[at]! / inputs.length, published / 23_608, 0.1);
  expect([...new Set(kinds)].toSorted()).toEqual(["first turn", "later turn", "tool call"]);
});
