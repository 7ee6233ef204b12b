import { describe, expect, it } from "vitest";
import { z } from "zod";
import { defineProducer } from "./define.ts";
import { columnKey } from "./keys.ts";
import { PluginRegistry } from "./registry.ts";

const HITS = columnKey("hits");
const produce = () => ({ produce() {} });
const picky = defineProducer({
  type: "picky",
  describe: "Must be told where.",
  parameters: z.strictObject({ where: z.string() }),
  produces: [HITS],
  create: produce,
});
const plain = defineProducer({ type: "plain", describe: "Needs nothing.", produces: [HITS], create: produce });

describe("PluginRegistry", () => {
  it("makes by default only producers that can do without parameters", () => {
    expect(new PluginRegistry([picky, plain]).defaultProducer(HITS)).toBe(plain);
    expect(new PluginRegistry([picky]).defaultProducer(HITS)).toBeUndefined();
    expect(new PluginRegistry([plain]).defaultProducer(columnKey("hits"))).toBeUndefined();
  });

  it("takes a schema that fails for one that needs parameters", () => {
    const parameters = z.object({
      where: z
        .string()
        .default("(")
        .transform((text) => new RegExp(text)),
    });
    const failing = defineProducer({ type: "failing", describe: "", parameters, produces: [HITS], create: produce });
    expect(new PluginRegistry([failing, plain]).defaultProducer(HITS)).toBe(plain);
  });

  it("refuses two definitions of one type", () => {
    expect(() => new PluginRegistry([plain, plain])).toThrow("two plugins claim the type plain");
  });
});
