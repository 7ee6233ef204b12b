import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { GivenSettings } from "./gateway-keys.ts";
import { readSettings } from "./read-settings.ts";

const MIB = 1024 * 1024;
const folder = mkdtempSync(join(tmpdir(), "sluice-settings-"));
afterAll(() => rmSync(folder, { recursive: true }));

async function within(cgroup: number, text?: string, given = new GivenSettings()) {
  const file = join(folder, "gateway.yaml");
  if (text !== undefined) writeFileSync(file, text);
  const { options } = await readSettings(text === undefined ? undefined : file, given, {}, cgroup);
  const { bodies, memory } = options;
  return { bodies: [bodies!.limit / MIB, bodies!.reserve / MIB], growth: memory!.heapGrowth, index: memory!.index };
}

describe("the memory limit of the gateway", () => {
  it("comes from the cgroup, and shrinks the sizes that neither flag nor file gives", async () => {
    expect(await within(512 * MIB)).toMatchObject({ bodies: [88, 22], growth: 100, index: Math.floor(123.2 * MIB) });
    expect(await within(512 * MIB, "bodies: {budget: 200Mi}")).toMatchObject({ bodies: [200, 22] });
    const given = new GivenSettings();
    given.set("bodies.smallReserve", 30 * MIB);
    expect(await within(512 * MIB, "", given)).toMatchObject({ bodies: [88, 30] });
  });

  it("comes from the file before the cgroup, and 0 takes it away", async () => {
    expect(await within(2048 * MIB, "memory: {limit: 512Mi}")).toMatchObject({ bodies: [88, 22] });
    expect(await within(512 * MIB, "memory: {limit: 0}")).toMatchObject({ bodies: [256, 64], growth: 300 });
    expect(await within(Number.POSITIVE_INFINITY)).toMatchObject({ bodies: [256, 64], growth: 300 });
  });

  it("never makes a reserve that is too small for one small body", async () => {
    expect(await within(256 * MIB, "bodies: {small: 8Mi}")).toMatchObject({ bodies: [24, 8] });
  });

  it("refuses a limit below what an idle process needs", async () => {
    await expect(within(512 * MIB, "memory: {limit: 100Mi}")).rejects.toMatchObject({ code: "DOCUMENT_INVALID" });
  });
});
