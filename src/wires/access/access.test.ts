import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { exportJWK, generateKeyPair, SignJWT } from "jose";
import { afterEach, beforeEach, expect, it } from "vitest";
import { poll } from "../../../test/support/poll.ts";
import { realClock } from "../../base/clock/real.ts";
import { HeaderList } from "../../base/inference/headers.ts";
import { silentLogger } from "../../base/telemetry/logger.ts";
import type { Verdict } from "../proxy/options.ts";
import { type Access, startAccess } from "./access.ts";
import { KeysSettings } from "./keys-settings.ts";

let folder = "";
let access: Access | undefined;
let changes = 0;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "sluice-access-"));
  changes = 0;
});
afterEach(async () => {
  access?.close();
  access = undefined;
  await rm(folder, { recursive: true, force: true });
});

async function signer(kid: string) {
  const { publicKey, privateKey } = await generateKeyPair("ES256");
  const claims = { iss: "i", aud: "a", sub: "u", p: 4 };
  const sign = () =>
    new SignJWT(claims).setProtectedHeader({ alg: "ES256", kid }).setExpirationTime("1h").sign(privateKey);
  return { jwk: { ...(await exportJWK(publicKey)), kid }, sign };
}

async function start(jwks: string): Promise<void> {
  const settings = KeysSettings.parse({ jwt: [{ issuer: "i", audience: "a", jwks, claims: { priority: "p" } }] });
  const events = { admitted() {}, refused() {} };
  access = await startAccess(settings, { clock: realClock, log: silentLogger, events, changed: () => void changes++ });
}

async function ask(token: string): Promise<Verdict> {
  const headers = HeaderList.of([["authorization", `Bearer ${token}`]]);
  return access!.authenticate({ method: "POST", path: "/v1/completions", headers });
}

it("without keys there is no door", async () => {
  const parts = { clock: realClock, log: silentLogger, events: { admitted() {}, refused() {} }, changed() {} };
  expect(await startAccess({ file: undefined, jwt: [] }, parts)).toBeUndefined();
});

it("a file with the keys of an issuer is followed, and must be right at the start", async () => {
  const jwks = join(folder, "jwks.json");
  await expect(start(jwks)).rejects.toThrow("does not exist");
  await writeFile(jwks, "{}");
  await expect(start(jwks)).rejects.toThrow("has no list `keys`");
  const [first, second] = [await signer("1"), await signer("2")];
  await writeFile(jwks, JSON.stringify({ keys: [first.jwk] }));
  await start(jwks);
  expect([...access!.priorities()]).toEqual([]);
  expect(await ask(await first.sign())).toMatchObject({ name: "u", priority: 4 });
  expect([[...access!.priorities()], changes]).toEqual([[4], 1]);
  await writeFile(jwks, JSON.stringify({ keys: [second.jwk] }));
  await poll("the second key", async () => "name" in (await ask(await second.sign()))!);
  expect(await ask(await first.sign())).toMatchObject({ reason: "key_invalid" });
});

it("an address that redirects, fails, or answers too much gives no keys", async () => {
  const { jwk, sign } = await signer("1");
  const good = JSON.stringify({ keys: [jwk] });
  let path = "";
  const server = createServer((request, response) => {
    path = request.url!;
    if (path === "/moved") response.writeHead(302, { location: "/good" }).end();
    else if (path === "/failed") response.writeHead(500).end(good);
    else if (path === "/long") response.end(good + " ".repeat(1024 * 1024));
    else response.end(good);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  for (const [place, expected] of [
    ["/moved", { reason: "token_unverifiable" }],
    ["/failed", { reason: "token_unverifiable" }],
    ["/long", { reason: "token_unverifiable" }],
    ["/good", { name: "u" }],
  ] as const) {
    await start(`${base}${place}`);
    expect(await ask(await sign())).toMatchObject(expected);
    expect(path).toBe(place);
    access!.close();
  }
  server.close();
  server.closeAllConnections();
});
