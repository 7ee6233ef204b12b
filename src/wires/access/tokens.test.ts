import { createLocalJWKSet, exportJWK, generateKeyPair, type JWK, SignJWT } from "jose";
import { beforeAll, describe, expect, it } from "vitest";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { type Logger, silentLogger } from "../../base/telemetry/logger.ts";
import { IssuerKeys } from "./issuer-keys.ts";
import { KeysSettings } from "./keys-settings.ts";
import { Tokens } from "./tokens.ts";

const ISSUER = "https://issuer.example";
const NOW = Date.parse("2026-06-01T12:00:00Z");

type Pair = Awaited<ReturnType<typeof generateKeyPair>>;
let pairs: Record<"first" | "second" | "rsa", Pair>;
let jwks: Record<string, JWK>;

beforeAll(async () => {
  pairs = {
    first: await generateKeyPair("ES256"),
    second: await generateKeyPair("ES256"),
    rsa: await generateKeyPair("RS256"),
  };
  jwks = {};
  for (const [kid, { publicKey }] of Object.entries(pairs)) jwks[kid] = { ...(await exportJWK(publicKey)), kid };
});

function setUp(more: object = {}, served: readonly string[] = ["first"]) {
  const clock = new VirtualClock(NOW);
  const reads = { count: 0, served, down: false };
  const read = async (): Promise<string> => {
    reads.count++;
    if (reads.down) throw new Error("connection refused");
    return JSON.stringify({ keys: reads.served.map((kid) => jwks[kid]) });
  };
  const settings = { issuer: ISSUER, audience: "sluice", jwks: "https://issuer.example/jwks", ...more };
  const [issuer] = KeysSettings.parse({ jwt: [settings] }).jwt;
  const told: string[] = [];
  const log: Logger = { ...silentLogger, error: (_fields, message) => void told.push(message) };
  const keys = new IssuerKeys({ place: "https://issuer.example/jwks", clock, log, read });
  let verified = 0;
  const counted = {
    get revision() {
      return keys.revision;
    },
    refreshed: () => keys.refreshed(),
    async current() {
      verified++;
      return keys.current();
    },
  };
  const tokens = new Tokens(clock, [{ settings: issuer!, keys: counted }]);
  return { clock, reads, tokens, keys, told, verified: () => verified };
}

interface Made {
  readonly claims?: Record<string, unknown>;
  readonly kid?: keyof typeof pairs;
  readonly alg?: string;
  readonly expires?: number | undefined;
}

function token({ claims = {}, kid = "first", alg = "ES256", expires = NOW / 1000 + 3600 }: Made = {}): Promise<string> {
  const all = { iss: ISSUER, aud: "sluice", sub: "user-1", ...(expires === 0 ? {} : { exp: expires }), ...claims };
  return new SignJWT(all).setProtectedHeader({ alg, kid }).sign(pairs[kid].privateKey);
}

describe("a token", () => {
  it("names its caller by issuer and subject, and is checked once", async () => {
    const { tokens, verified } = setUp();
    const text = await token();
    const caller = await tokens.verify(text, "peer");
    expect(caller).toEqual({
      id: `${ISSUER}#user-1`,
      name: "user-1",
      models: undefined,
      objective: undefined,
      priority: undefined,
      fairnessId: undefined,
      choosesFlow: false,
    });
    // The second answer needs no promise.
    expect(tokens.verify(text, "peer")).toBe(caller);
    expect(verified()).toBe(1);
  });

  it("gives what its claims say, where the settings read them", async () => {
    const claims = {
      name: "preferred_username",
      models: ["realm", "models"],
      objective: "o",
      priority: "p",
      fairnessId: "https://x/f",
    };
    const { tokens } = setUp({ claims, choosesFlow: true });
    const said = { preferred_username: "ann", realm: { models: ["a", "b"] }, o: "batch", p: -3, "https://x/f": "team" };
    expect(await tokens.verify(await token({ claims: said }), "peer")).toMatchObject({
      name: "ann",
      models: new Set(["a", "b"]),
      objective: "batch",
      priority: -3,
      fairnessId: "team",
      choosesFlow: true,
    });
    const scope = { ...said, realm: { models: "a  b" } };
    expect(await tokens.verify(await token({ claims: scope }), "peer")).toMatchObject({ models: new Set(["a", "b"]) });
    // Its silence about models gives none.
    expect(await tokens.verify(await token(), "peer")).toMatchObject({ models: new Set(), name: "user-1" });
  });

  it.each([
    [{ realm: { models: 7 } }, /claim `realm\.models` is not a list/],
    [{ realm: { models: ["a", 7] } }, /claim `realm\.models` is not a list/],
    [{ p: 1.5 }, /claim `p` is not a whole number/],
    [{ p: 2 ** 31 }, /claim `p` is not a whole number/],
    [{ o: ["x"] }, /claim `o` is not a string/],
    [{ preferred_username: "" }, /claim `preferred_username` is not a string/],
    [{ sub: "" }, /claim `sub`/],
  ])("with claims that cannot be read is refused: %j", async (claims, detail) => {
    const { tokens } = setUp({
      claims: { name: "preferred_username", models: ["realm", "models"], objective: "o", priority: "p" },
    });
    expect(await tokens.verify(await token({ claims }), "peer")).toMatchObject({
      reason: "key_invalid",
      detail: expect.stringMatching(detail),
    });
  });

  it.each<[string, Made, string]>([
    ["another issuer", { claims: { iss: "https://evil.example" } }, "key_invalid"],
    ["another audience", { claims: { aud: "other" } }, "key_invalid"],
    ["no audience", { claims: { aud: undefined } }, "key_invalid"],
    ["no subject", { claims: { sub: undefined } }, "key_invalid"],
    ["no end", { expires: 0 }, "key_invalid"],
    ["an end that is past", { expires: NOW / 1000 - 31 }, "key_expired"],
    ["a beginning to come", { claims: { nbf: NOW / 1000 + 31 } }, "key_invalid"],
    ["a key that its issuer does not list", { kid: "second" }, "key_invalid"],
  ])("with %s is refused", async (_what, made, reason) => {
    const { tokens } = setUp();
    expect(await tokens.verify(await token(made), "peer")).toMatchObject({ reason, status: 401 });
  });

  it("may be off by the tolerance of clocks", async () => {
    const { tokens } = setUp();
    expect(await tokens.verify(await token({ expires: NOW / 1000 - 29 }), "peer")).toMatchObject({ name: "user-1" });
    const early = await token({ claims: { nbf: NOW / 1000 + 29 } });
    expect(await tokens.verify(early, "peer")).toMatchObject({ name: "user-1" });
  });

  it("that somebody changed is refused, and the refusal repeats nothing of it", async () => {
    const { tokens } = setUp();
    const [head, , signature] = (await token()).split(".");
    const claims = Buffer.from(JSON.stringify({ iss: ISSUER, aud: "sluice", sub: "root", exp: NOW / 1000 + 9 }));
    const changed = `${head}.${claims.toString("base64url")}.${signature}`;
    const refusal = await tokens.verify(changed, "peer");
    expect(refusal).toMatchObject({ reason: "key_invalid" });
    expect(JSON.stringify(refusal)).not.toContain(signature);
  });

  it.each(["none", "HS256"])(
    "with the algorithm %s is refused: a public key proves nothing as a secret",
    async (alg) => {
      const { tokens } = setUp();
      const claims = { iss: ISSUER, aud: "sluice", sub: "root", exp: NOW / 1000 + 9 };
      const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString("base64url");
      const secret = new TextEncoder().encode(JSON.stringify(jwks["first"]));
      const text =
        alg === "none"
          ? `${part({ alg: "none", kid: "first" })}.${part(claims)}.`
          : await new SignJWT(claims).setProtectedHeader({ alg, kid: "first" }).sign(secret);
      expect(await tokens.verify(text, "peer")).toMatchObject({ reason: "key_invalid" });
    },
  );

  it("with an algorithm that the settings leave out is refused", async () => {
    const { tokens } = setUp({ algorithms: ["ES256"] }, ["first", "rsa"]);
    expect(await tokens.verify(await token({ kid: "rsa", alg: "RS256" }), "p")).toMatchObject({
      detail: expect.stringContaining("algorithm"),
    });
    const both = setUp({}, ["first", "rsa"]).tokens;
    expect(await both.verify(await token({ kid: "rsa", alg: "RS256" }), "p")).toMatchObject({ name: "user-1" });
  });

  it("that was kept is refused when it expires, without its keys", async () => {
    const { tokens, clock } = setUp();
    const text = await token({ expires: NOW / 1000 + 60 });
    await tokens.verify(text, "peer");
    clock.advance(89_999);
    expect(tokens.verify(text, "peer")).toMatchObject({ name: "user-1" });
    clock.advance(1);
    expect(tokens.verify(text, "peer")).toMatchObject({ reason: "key_expired" });
  });

  it("that was kept is checked again when the keys of its issuer change, and not when they are read again", async () => {
    const { reads, tokens, keys } = setUp();
    const text = await token();
    await tokens.verify(text, "peer");
    await keys.readNow();
    expect(tokens.verify(text, "peer")).toMatchObject({ name: "user-1" });
    reads.served = ["second"];
    await keys.readNow();
    expect(await tokens.verify(text, "peer")).toMatchObject({ reason: "key_invalid" });
    reads.served = ["second", "first"];
    await keys.readNow();
    expect(await tokens.verify(text, "peer")).toMatchObject({ name: "user-1" });
  });

  it("that was kept is checked again after ten minutes: its key may be withdrawn", async () => {
    const { tokens, clock, reads } = setUp();
    const text = await token();
    await tokens.verify(text, "peer");
    reads.served = ["second"];
    clock.advance(599_999);
    expect(tokens.verify(text, "peer")).toMatchObject({ name: "user-1" });
    clock.advance(1);
    // The old keys count while the new ones are read; then the next check sees them.
    await tokens.verify(text, "peer");
    clock.advance(600_000);
    expect(await tokens.verify(text, "peer")).toMatchObject({ reason: "key_invalid" });
  });
});

describe("the keys of an issuer", () => {
  it("are read again for a key that is not among them, once in 30 s", async () => {
    const { tokens, clock, reads } = setUp();
    await tokens.verify(await token(), "peer");
    reads.served = ["first", "second"];
    const text = await token({ kid: "second" });
    expect(await tokens.verify(text, "peer")).toMatchObject({ reason: "key_invalid" });
    expect(reads.count).toBe(1);
    clock.advance(30_000);
    expect(await tokens.verify(text, "peer")).toMatchObject({ name: "user-1" });
    expect(reads.count).toBe(2);
  });

  it("that cannot be read are 503 with the reason, and are tried again after 5 s", async () => {
    const { tokens, clock, reads } = setUp();
    reads.down = true;
    const text = await token();
    for (let i = 0; i < 3; i++)
      expect(await tokens.verify(text, "peer")).toMatchObject({
        reason: "token_unverifiable",
        status: 503,
        retryAfter: 5,
        detail: expect.stringContaining("cannot read the keys of this issuer"),
      });
    expect(reads.count).toBe(1);
    reads.down = false;
    clock.advance(5_000);
    expect(await tokens.verify(text, "peer")).toMatchObject({ name: "user-1" });
  });

  it("count for a day after the issuer has gone, and no longer; the log says so", async () => {
    const { tokens, clock, reads, told } = setUp();
    await tokens.verify(await token(), "peer");
    reads.down = true;
    clock.advance(24 * 3_600_000 - 1);
    const later = await token({ expires: NOW / 1000 + 90_000 });
    expect(await tokens.verify(later, "peer")).toMatchObject({ name: "user-1" });
    clock.advance(600_001);
    expect(await tokens.verify(later, "peer")).toMatchObject({ reason: "token_unverifiable" });
    expect([told[0], told.at(-1)]).toEqual([
      "cannot read the keys of a token issuer: the gateway uses the last keys for 24 h after it read them",
      "cannot read the keys of a token issuer: tokens of this issuer get 503",
    ]);
  });

  it("leave no room for the secrets of a symmetric algorithm", async () => {
    const clock = new VirtualClock(NOW);
    const read = async () => JSON.stringify({ keys: [{ kty: "oct", k: "c2VjcmV0", kid: "first" }] });
    const keys = new IssuerKeys({ place: "x", clock, log: silentLogger, read });
    expect(await keys.current()).toBeUndefined();
    expect(createLocalJWKSet({ keys: [] })).toBeTypeOf("function");
  });
});

describe("checks of signatures", () => {
  it("are bounded for one address, and another address still gets one", async () => {
    const { tokens } = setUp();
    const texts = await Promise.all(Array.from({ length: 18 }, (_, i) => token({ claims: { jti: String(i) } })));
    const answers = texts.slice(0, 17).map((text) => tokens.verify(text, "greedy"));
    expect(answers.at(-1)).toMatchObject({ reason: "token_unverifiable", retryAfter: 1 });
    expect(await tokens.verify(texts[17]!, "other")).toMatchObject({ name: "user-1" });
    expect(await Promise.all(answers.slice(0, 16))).toEqual(
      Array(16).fill(expect.objectContaining({ name: "user-1" })),
    );
    expect(await tokens.verify(texts[16]!, "greedy")).toMatchObject({ name: "user-1" });
  });

  it("are not begun for a token of no known issuer, for one that has expired, and for one that is too long", async () => {
    const { tokens, verified } = setUp();
    const unknown = await token({ claims: { iss: "https://evil.example" } });
    const expired = await token({ expires: 1 });
    for (const text of [unknown, expired, "eyJ.e30.", "eyJ.bnVsbA.", `${await token()}${"a".repeat(20_000)}`])
      expect(tokens.verify(text, "peer")).toMatchObject({ status: 401 });
    expect(verified()).toBe(0);
  });
});
