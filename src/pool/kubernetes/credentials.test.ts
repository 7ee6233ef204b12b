import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { inCluster, RereadFile } from "./credentials.ts";

let folder = "";

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "sluice-account-"));
  for (const [name, text] of [
    ["token", "t1\n"],
    ["ca.crt", "CA 1\n"],
    ["namespace", "ml"],
  ] as const)
    await writeFile(join(folder, name), text);
});

afterEach(async () => {
  await rm(folder, { recursive: true, force: true });
});

const ENV = { KUBERNETES_SERVICE_HOST: "10.0.0.1", KUBERNETES_SERVICE_PORT: "443" };

describe("inCluster", () => {
  it("is undefined outside of a cluster, and brackets an IPv6 address within one", async () => {
    const clock = new VirtualClock();
    expect(await inCluster({}, clock, folder)).toBeUndefined();
    expect(await inCluster({ KUBERNETES_SERVICE_HOST: "10.0.0.1" }, clock, folder)).toBeUndefined();
    expect(await inCluster(ENV, clock, folder)).toMatchObject({ server: "https://10.0.0.1:443", namespace: "ml" });
    expect(await inCluster({ ...ENV, KUBERNETES_SERVICE_HOST: "fd00::1" }, clock, folder)).toMatchObject({
      server: "https://[fd00::1]:443",
    });
  });

  it("reads token and authorities again, at most every 10 s, at once after a refusal, and keeps them while they cannot be read", async () => {
    const clock = new VirtualClock();
    const { credentials } = (await inCluster(ENV, clock, folder))!;
    expect([await credentials.token(), credentials.ca, credentials.insecureSkipVerify]).toEqual(["t1", "CA 1", false]);
    await writeFile(join(folder, "token"), "t2");
    await writeFile(join(folder, "ca.crt"), "CA 2");
    clock.advance(9_999);
    expect(await credentials.token()).toBe("t1");
    clock.advance(1);
    expect([await credentials.token(), credentials.ca]).toEqual(["t2", "CA 2"]);
    await writeFile(join(folder, "token"), "t3");
    credentials.refused?.();
    expect(await credentials.token()).toBe("t3");
    await rm(join(folder, "token"));
    clock.advance(20_000);
    expect(await credentials.token()).toBe("t3");
  });

  it("says what is missing and how to get it", async () => {
    await rm(join(folder, "token"));
    await expect(inCluster(ENV, new VirtualClock(), folder)).rejects.toMatchObject({
      code: "IN_CLUSTER_ACCOUNT",
      message: `this pod has no usable service account: ${join(folder, "token")} does not exist; set automountServiceAccountToken: true in its spec`,
    });
  });
});

describe("RereadFile", () => {
  it("reads once for callers at the same time, and refuses a file above 1 MiB (bound)", async () => {
    const file = new RereadFile(join(folder, "token"), new VirtualClock());
    expect(file.text()).toBe(file.text());
    expect(await file.text()).toBe("t1");
    await writeFile(join(folder, "large"), "x".repeat(1024 * 1024 + 1));
    await expect(new RereadFile(join(folder, "large"), new VirtualClock()).text()).rejects.toMatchObject({
      code: "DOCUMENT_TOO_BIG",
    });
  });
});
