import { describe, expect, it } from "vitest";
import { type PeersGiven, peersSettings } from "./peers-settings.ts";

const SECRET = { SLUICE_PEERS_SECRET: "0123456789abcdef" };

describe("peersSettings", () => {
  it("is undefined without a store, and takes the store of a flag before that of the environment", () => {
    expect(peersSettings({ redis: undefined }, {})).toBeUndefined();
    expect(peersSettings({ redis: undefined }, SECRET)).toBeUndefined();
    expect(peersSettings({ redis: "" }, { SLUICE_PEERS: "" })).toBeUndefined();
    const env = { SLUICE_PEERS: "redis://environment", ...SECRET };
    expect(peersSettings({ redis: undefined }, env)).toEqual({
      url: "redis://environment",
      name: "default",
      secret: "0123456789abcdef",
      files: { ca: undefined, certificate: undefined, key: undefined },
    });
    expect(peersSettings({ redis: "redis://flag", name: "a/b" }, env, "llm/pool")).toMatchObject({
      url: "redis://flag",
      name: "a/b",
    });
    expect(peersSettings({ redis: "redis://flag" }, env, "llm/pool")?.name).toBe("llm/pool");
  });

  it.each<[string, PeersGiven, object, string, RegExp]>([
    ["a URL of another kind", { redis: "http://store" }, {}, "REDIS_URL_INVALID", /redis:\/\//],
    ["an option without effect", { redis: "redis://store?pool_size=3" }, {}, "REDIS_URL_INVALID", /pool_size/],
    ["a name without a store", { redis: undefined, name: "x" }, {}, "FLAG_CONFLICT", /--peers-name.*--peers URL/],
    ["an authority without a store", { redis: undefined, ca: "x" }, {}, "FLAG_CONFLICT", /--peers-ca/],
    ["an authority without TLS", { redis: "redis://store", ca: "x" }, {}, "FLAG_CONFLICT", /rediss/],
    ["a certificate without a key", { redis: "rediss://store", certificate: "x" }, {}, "FLAG_CONFLICT", /--peers-key/],
    ["a name with a brace", { redis: "redis://store", name: "a}b" }, {}, "FLAG_VALUE", /--peers-name/],
    ["an empty name", { redis: "redis://store", name: "" }, {}, "FLAG_VALUE", /--peers-name/],
    ["a long name", { redis: "redis://store", name: "a".repeat(254) }, {}, "FLAG_VALUE", /253/],
    ["a short secret", { redis: "redis://store" }, { SLUICE_PEERS_SECRET: "hush" }, "FLAG_VALUE", /16 characters/],
  ])("refuses %s", (_, given, env, code, message) => {
    expect(() => peersSettings(given, { ...env })).toThrow(
      expect.objectContaining({ code, message: expect.stringMatching(message) }),
    );
    expect(() => peersSettings(given, { ...env })).not.toThrow(/hush/);
  });
});
