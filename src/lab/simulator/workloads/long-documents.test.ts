import { describe, expect, it } from "vitest";
import { checksum, countBy, playNamed } from "../../../../test/support/simulator/workloads/workloads.cases.ts";

const SYSTEM_BYTES = 2000 * 4;

describe("the long-documents workload", () => {
  const sent = playNamed("long-documents", { rate: 20 });
  const of = (kind: string) => sent.filter(({ request }) => request.kind === kind).map(({ request }) => request);
  const tokens = (prompt: Uint8Array): number => prompt.length / 4;

  it("has 8 % of documents, of 20,000 to 100,000 tokens each, all of them new", () => {
    const documents = of("document");
    const expected = sent.length * 0.08;
    expect(Math.abs(documents.length - expected)).toBeLessThan(3 * Math.sqrt(expected));
    const lengths = documents.map(({ prompt }) => tokens(prompt));
    expect(Math.min(...lengths)).toBeGreaterThanOrEqual(20_000);
    expect(Math.min(...lengths)).toBeLessThan(25_000);
    expect(Math.max(...lengths)).toBeGreaterThan(95_000);
    expect(Math.max(...lengths)).toBeLessThanOrEqual(100_000);
    expect(new Set(documents.map(({ prompt }) => checksum(prompt.subarray(0, 64)))).size).toBe(documents.length);
  });

  it("has chats of 40 assistants, each chat with its own question", () => {
    const chats = of("chat");
    expect(chats.length + of("document").length).toBe(sent.length);
    expect(countBy(chats, ({ prompt }) => String(checksum(prompt.subarray(0, SYSTEM_BYTES)))).size).toBe(40);
    expect(new Set(chats.map(({ prompt }) => checksum(prompt))).size).toBe(chats.length);
    for (const { prompt } of chats) expect(tokens(prompt)).toBeLessThanOrEqual(10_000);
  });
});
