import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, describe, expect, it } from "vitest";
import { IdHashes } from "./id-hashes.ts";

const folder = mkdtempSync(join(tmpdir(), "sluice-hashes-"));
afterAll(() => rmSync(folder, { recursive: true }));

const breathe = async (): Promise<void> => {};

describe("IdHashes", () => {
  it("finds the ids that occur twice, as a set does, in memory and on the disk", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.oneof(fc.nat(60).map(String), fc.string({ maxLength: 30 })), { maxLength: 200 }),
        fc.constantFrom(1, 7, 64, 4096),
        fc.tuple(fc.nat(), fc.nat()),
        async (ids, inMemory, seeds) => {
          const hashes = new IdHashes(join(folder, "ids"), seeds, inMemory);
          for (const id of ids) hashes.add(id);
          const twins = await hashes.twins(breathe);
          const seen = new Set<string>();
          const twice = new Set(ids.filter((id) => seen.size === seen.add(id).size));
          expect(twins).toEqual(new Set([...twice].map((id) => hashes.hashOf(id))));
          hashes.close();
          expect(readdirSync(folder)).toEqual([]);
        },
      ),
    );
  });

  it("tells apart a million ids that differ little", async () => {
    const hashes = new IdHashes(join(folder, "many"), [1, 2], 300_000);
    for (let n = 0; n < 1_000_000; n++) hashes.add(`request-${n}`);
    hashes.add("request-999999");
    expect(await hashes.twins(breathe)).toEqual(new Set([hashes.hashOf("request-999999")]));
    hashes.close();
  });

  it("tells at most a thousand", async () => {
    const hashes = new IdHashes(join(folder, "twins"), [3, 4], 512);
    for (let n = 0; n < 3000; n++) hashes.add(String(n % 1500));
    expect((await hashes.twins(breathe)).size).toBe(1000);
    hashes.close();
  });
});
