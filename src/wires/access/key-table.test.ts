import { describe, expect, it, vi } from "vitest";
import { parseDocument } from "../../base/document/parse.ts";
import type { Caller } from "../../base/inference/caller.ts";
import { keysIn } from "./key-entry.ts";
import { KeyTable } from "./key-table.ts";
import { idIn, newKey } from "./key-text.ts";

const NOW = Date.parse("2026-06-01T12:00:00Z");
const made = newKey(undefined);
const old = newKey(made.id);

function table(more = "", hash = made.hash): KeyTable {
  const text = `keys: [{ id: ${made.id}, name: team-a, hash: "${hash}"${more} }]`;
  return new KeyTable(keysIn(parseDocument(text, { file: "keys.yaml" })));
}

describe("a key", () => {
  it("has a public id of 12 letters and digits, and 256 bits of chance", () => {
    expect(made.key).toMatch(/^sk-sluice-[a-z0-9]{12}-[\w-]{43}$/);
    expect(idIn(made.key)).toBe(made.id);
    expect(new Set(Array.from({ length: 100 }, () => newKey(made.id).key)).size).toBe(100);
    expect(made.hash).not.toContain(made.key.slice(-20));
  });

  it("is found with all that its entry says", () => {
    const more = ", models: [a, b], priority: -2, fairnessId: f, choosesFlow: true";
    expect(table(more).find(made.key, NOW)).toEqual({
      id: made.id,
      name: "team-a",
      models: new Set(["a", "b"]),
      objective: undefined,
      priority: -2,
      fairnessId: "f",
      choosesFlow: true,
      background: false,
    });
    expect([...table(more).priorities]).toEqual([-2]);
    expect(table().find(made.key, NOW)).toMatchObject({ models: undefined, choosesFlow: false });
  });

  it("of background requests has a priority below that of all others, unless it names another", () => {
    const found = (more: string) => {
      const keys = table(`, background: true${more}`);
      const { background, priority } = keys.find(made.key, NOW) as Caller;
      return [keys.hasBackground, background, priority, [...keys.priorities]];
    };
    expect(found("")).toEqual([true, true, -1, [-1]]);
    expect(found(", priority: 3")).toEqual([true, true, 3, [3]]);
    expect(found(", objective: o")).toEqual([true, true, undefined, []]);
    expect(table().hasBackground).toBe(false);
  });

  it.each([
    ["another secret of the same id", old.key],
    ["an unknown id", newKey(undefined).key],
    ["the hash itself", made.hash],
    ["a longer text", `${made.key}x`],
    ["a shorter text", made.key.slice(0, -1)],
    ["the id in capitals", made.key.replace(made.id, made.id.toUpperCase())],
    ["nothing", ""],
    ["a line break behind it", `${made.key}\n`],
  ])("is not %s", (_what, text) => {
    expect(table().find(text, NOW)).toBe("unknown");
  });

  it("counts until it expires, to the millisecond", () => {
    const keys = table(", expires: 2026-06-01T12:00:00Z");
    expect(keys.find(made.key, NOW - 1)).toMatchObject({ name: "team-a" });
    expect(keys.find(made.key, NOW)).toBe("expired");
    // Who lacks the secret does not learn that the id exists.
    expect(keys.find(old.key, NOW)).toBe("unknown");
  });

  it("does not count once it is revoked, even before the time that the file gives", () => {
    const keys = table(", revoked: 2030-01-01T00:00:00Z");
    expect(keys.find(made.key, NOW)).toBe("revoked");
    expect(keys.find(old.key, NOW)).toBe("unknown");
  });

  it("has two secrets after a rotation with grace, until the grace is over", () => {
    const keys = table(`, previous: { hash: "${old.hash}", until: 2026-06-01T12:00:00Z }`);
    for (const key of [made.key, old.key]) expect(keys.find(key, NOW - 1)).toMatchObject({ id: made.id });
    expect(keys.find(old.key, NOW)).toBe("expired");
    expect(keys.find(made.key, NOW)).toMatchObject({ id: made.id });
  });

  it("costs the same two whole compares for a known id and an unknown one", async () => {
    let compares = 0;
    vi.resetModules();
    vi.doMock("node:crypto", async (original) => {
      const crypto = await original<typeof import("node:crypto")>();
      const timingSafeEqual: typeof crypto.timingSafeEqual = (a, b) => {
        compares++;
        return crypto.timingSafeEqual(a, b);
      };
      return { ...crypto, timingSafeEqual };
    });
    const watched = await import("./key-table.ts");
    vi.doUnmock("node:crypto");
    vi.resetModules();
    const text = `keys: [{ id: ${made.id}, name: a, hash: "${made.hash}" }]`;
    const keys = new watched.KeyTable(keysIn(parseDocument(text, { file: "keys.yaml" })));
    const counts = [made.key, old.key, newKey(undefined).key].map((key) => {
      compares = 0;
      keys.find(key, NOW);
      return compares;
    });
    expect(counts).toEqual([2, 2, 2]);
  });
});
