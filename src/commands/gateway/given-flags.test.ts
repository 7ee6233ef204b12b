import { describe, expect, it } from "vitest";
import { parseDocument } from "../../base/document/parse.ts";
import { defaultSettings, gatewayFileOf } from "../../wires/gateway/gateway-file.ts";
import { GATEWAY_KEY_NAMES, GATEWAY_KEYS } from "../../wires/gateway/gateway-keys.ts";
import { gatewayOptions } from "../../wires/gateway/gateway-options.ts";
import { gatewayCommand } from "./command.ts";
import { type GatewayFlags, givenSettings } from "./given-flags.ts";

/** The settings of a command line over those of a file. @param all every flag counts as given, with its default */
async function settingsOf(args: readonly string[], text?: string, all = false) {
  const command = gatewayCommand().action(() => {});
  command.parse(args, { from: "user" });
  const flags = command.opts<GatewayFlags>();
  const isGiven = (flag: keyof GatewayFlags): boolean =>
    all ? flags[flag] !== undefined : command.getOptionValueSource(flag) === "cli";
  const file = text === undefined ? defaultSettings() : gatewayFileOf(parseDocument(text, { file: "g" }), "/").settings;
  return (await givenSettings(flags, isGiven)).over(file);
}

describe("the flags of the gateway", () => {
  it("have the defaults of the file", async () => {
    const byFlags = await settingsOf([], undefined, true);
    expect(byFlags).toEqual(defaultSettings());
    expect(gatewayOptions(byFlags, undefined, {})).toEqual(gatewayOptions(defaultSettings(), undefined, {}));
  });

  it("exist for each key that names one", () => {
    const known = new Set(gatewayCommand().options.map(({ long }) => long));
    expect(known).toContain("--config");
    for (const key of GATEWAY_KEY_NAMES)
      for (const flag of GATEWAY_KEYS[key].flag.split(" or ")) expect(known).toContain(flag);
  });

  it.each<[string, readonly string[], string, object]>([
    [
      "admin",
      ["--admin", "1.2.3.4:5"],
      "admin: {open: true}",
      { admin: { address: { host: "1.2.3.4", port: 5 }, open: true } },
    ],
    ["retries", ["--max-retries", "0"], "retries: {max: 5, statuses: [500]}", { retries: { max: 0, statuses: [500] } }],
    ["endpoints", ["--endpoints", "e.yaml"], "endpoints: {list: []}", { endpoints: { kind: "file", path: "e.yaml" } }],
    [
      "profile",
      ["--profile", "default"],
      "picker: {configFile: a.yaml}",
      { picker: { profile: "default", configFile: undefined } },
    ],
    ["objectives", ["--objective", "a=1", "--objective", "b=-0"], "objectives: {c: 2}", { objectives: { a: 1, b: 0 } }],
    ["log", ["--request-log", "all"], "log: {level: warn}", { log: { level: "warn", requests: { which: "all" } } }],
    ["bodies", ["--small-body", "1Ki"], "bodies: {budget: 1Gi}", { bodies: { small: 1024, budget: 2 ** 30 } }],
    [
      "listeners",
      ["--tls-cert", "c", "--tls-key", "k"],
      "listeners: [{address: 1.2.3.4:5}, {address: 1.2.3.4:6}]",
      { listeners: [{ address: { host: "127.0.0.1", port: 8080 }, tls: { certificate: "c", key: "k" } }] },
    ],
    [
      "connections",
      ["--config", "g", "--max-connections-per-address", "15000"],
      "connections: {max: 20000, perAddress: 1}",
      { connections: { max: 20_000, perAddress: 15_000 } },
    ],
    ["keys", ["--keys", "k"], "keys: {file: a, open: true}", { keys: { file: "k", open: true } }],
    [
      "jwt",
      ["--jwt-issuer", "i", "--jwt-audience", "a", "--jwt-jwks", "j"],
      "keys: {file: f, jwt: [{issuer: x, audience: x, jwks: x}, {issuer: y, audience: y, jwks: y}]}",
      { keys: { file: "/f", jwt: [{ issuer: "i", audience: ["a"], jwks: "j" }] } },
    ],
    ["open", ["--open"], "keys: {}", { keys: { open: true } }],
    [
      "limits",
      ["--limits", "l"],
      "limits: {redis: 'redis://a', rules: [{inFlight: 1}]}",
      { limits: { file: "l", rules: [], redis: "redis://a" } },
    ],
    [
      "redis of limits",
      ["--config", "g", "--limits-redis", "redis://b"],
      "limits: {redis: 'redis://a', rules: [{inFlight: 1}]}",
      { limits: { rules: [{ inFlight: 1 }], redis: "redis://b" } },
    ],
    [
      "certificates for the redis of limits",
      ["--config", "g", "--limits-ca", "a", "--limits-cert", "b", "--limits-key", "c"],
      "limits: {redis: 'rediss://a', ca: x, rules: [{inFlight: 1}]}",
      { limits: { redis: "rediss://a", ca: "a", certificate: "b", key: "c" } },
    ],
    [
      "cors",
      ["--cors-origin", "https://b.example"],
      "cors: {origins: ['*']}",
      { cors: { origins: ["https://b.example"] } },
    ],
    [
      "servers",
      ["--server-tls", "--server-ca", "b"],
      "servers: {tls: {ca: a, serverName: n}}",
      { servers: { tls: { ca: "b", serverName: undefined } } },
    ],
    ["streams", ["--stream-rest", "5ms"], "streams: {rest: 0s}", { streams: { rest: 5 } }],
    ["drain", ["--drain-timeout", "5s"], "drain: {timeout: 1h}", { drain: { timeout: 5000 } }],
  ])("win over the keys of the file: %s", async (_name, args, text, expected) => {
    expect(await settingsOf(args, text)).toMatchObject(expected);
  });

  it("are refused where they do not fit the file", async () => {
    const log = await settingsOf(["--request-log-file", "a.log"], "log: {requests: {which: off}}");
    expect(() => gatewayOptions(log, undefined, {})).toThrow("--request-log-file has no effect with --request-log off");
    const bodies = await settingsOf(["--small-body", "1Mi"], "bodies: {small: 2Ki, smallReserve: 4Ki}");
    expect(() => gatewayOptions(bodies, undefined, {})).toThrow("more than bodies.smallReserve");
    const connections = await settingsOf(["--max-connections", "5"], "connections: {perAddress: 6}");
    expect(() => gatewayOptions(connections, undefined, {})).toThrow("more than connections.max");
    await expect(settingsOf(["--stream-rest", "2s"])).rejects.toThrow("of at most 1000 ms");
    for (const flag of ["--limits-redis", "--limits-ca", "--limits-cert", "--limits-key"])
      await expect(settingsOf([flag, "a"])).rejects.toThrow(`${flag} needs --limits`);
  });
});
