import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { ROOT } from "../../../test/support/process.ts";
import { parseDocument } from "../../base/document/parse.ts";
import { gatewayFileOf, inlineConfig, overridden, readGatewayFile } from "./gateway-file.ts";
import { GivenSettings } from "./gateway-keys.ts";

const fileOf = (text: string) => gatewayFileOf(parseDocument(text, { file: "gateway.yaml" }), "/etc/sluice");

describe("a gateway.yaml", () => {
  it("may be empty, and has every default then", () => {
    expect(fileOf("").settings).toMatchObject({
      listeners: [{ address: { host: "127.0.0.1", port: 8080 } }],
      admin: { address: { host: "127.0.0.1", port: 19001 }, open: false },
      retries: { max: 2, statuses: [503] },
      log: { level: "info", requests: { which: "errors", file: "-" } },
    });
  });

  it("counts relative paths from its folder", () => {
    const { settings } = fileOf(
      "listeners: [{address: '1', tls: {certificate: a, key: ../b, clientCa: /c}}]\nservers: {tls: {ca: d, certificate: e, key: f, serverName: g}}\n" +
        "keys: {file: k, jwt: [{issuer: i, audience: a, jwks: j.json}, {issuer: i, audience: a, jwks: 'https://j/j'}]}\n" +
        "limits: {file: l, ca: lc, certificate: ld, key: /lk}\npeers: {redis: 'rediss://r', ca: pc, certificate: pd, key: /pk}\n" +
        "endpoints: {file: e.yaml}\npicker: {configFile: ../p.yaml}\nresources: {folder: r}\nlog: {requests: {file: /var/r.log}}\n",
    );
    expect([settings.endpoints, settings.picker.configFile, settings.resources.folder]).toEqual([
      { kind: "file", path: "/etc/sluice/e.yaml" },
      "/etc/p.yaml",
      "/etc/sluice/r",
    ]);
    expect(settings.log.requests.file).toBe("/var/r.log");
    expect(settings.listeners[0]!.tls).toEqual({ certificate: "/etc/sluice/a", key: "/etc/b", clientCa: "/c" });
    expect(settings.servers.tls).toEqual({
      ...{ ca: "/etc/sluice/d", certificate: "/etc/sluice/e", key: "/etc/sluice/f", serverName: "g" },
    });
    const { keys, limits, peers } = settings;
    expect([keys.file, ...keys.jwt.map(({ jwks }) => jwks), limits.file]).toEqual([
      ...["/etc/sluice/k", "/etc/sluice/j.json", "https://j/j", "/etc/sluice/l"],
    ]);
    expect(limits).toMatchObject({ ca: "/etc/sluice/lc", certificate: "/etc/sluice/ld", key: "/lk" });
    expect(peers).toMatchObject({ ca: "/etc/sluice/pc", certificate: "/etc/sluice/pd", key: "/pk" });
    expect(fileOf("endpoints: {slurm: {file: n.txt, port: 1}}").settings.endpoints).toMatchObject({
      file: "/etc/sluice/n.txt",
    });
  });

  it("takes the scheme of an endpoint in its list", () => {
    const { endpoints } = fileOf("endpoints: {list: [{name: a, address: b, port: 1, scheme: https}]}").settings;
    expect(endpoints).toMatchObject({ endpoints: [{ name: "a", scheme: "https" }] });
  });

  it("holds the configuration of the picker with its places", () => {
    const file = fileOf("picker:\n  config:\n    kind: x\n");
    expect(inlineConfig(file)?.positionOf(["kind"])).toEqual({ file: "gateway.yaml", line: 3, column: 5 });
    expect(inlineConfig(fileOf("picker: {profile: default}"))).toBeUndefined();
  });

  it("has all its faults in one error, each with place and nearest key", () => {
    const text = [
      "listners: []",
      "admin: { address: here }",
      "endpoints:",
      "  dns: { names: [ { srv: 10.0.0.1 }, { host: a.b } ], interval: 5 }",
      "objectives: { a b: 1 }",
      "resources: { poolName: p }",
      "bodies: { small: 1Gi }",
      "log: { level: loud, requests: { which: some } }",
    ].join("\n");
    let message = "";
    try {
      fileOf(text);
    } catch (error) {
      message = (error as Error).message;
    }
    for (const line of [
      "1:1: listners: unknown key `listners`; did you mean `listeners`?",
      '2:10: admin.address: the address "here" is not an address to listen on',
      "4:21: endpoints.dns.names[0].srv: must be a DNS name, not an address",
      "4:55: endpoints.dns.interval: expected a duration with a unit",
      "6:14: resources.poolName: applies to API objects; it needs `folder`",
      "7:11: bodies.small: is 1073741824 bytes, more than `smallReserve` holds",
      '8:8: log.level: expected one of `error`, `warn`, `info`, `debug`, got the string "loud"',
      "8:33: log.requests.which: give off, errors, all, or 1/N",
    ])
      expect(message).toContain(`gateway.yaml:${line}`);
  });

  it.each([
    ["endpoints: {}", "give exactly one of `file`, `list`, `dns` and `slurm`"],
    ["endpoints: {file: a, list: []}", "give exactly one of `file`, `list`, `dns` and `slurm`, not 2"],
    ["endpoints: {list: [{name: a, address: '10.0.0.1:80', port: 1}]}", "the port has its own key"],
    ["endpoints: {list: [{name: a, address: b, port: 1, model: [m]}]}", "unknown key `model`; did you mean `models`?"],
    ["endpoints: {list: [{name: a, address: b, port: 1, scheme: htps}]}", "did you mean `https`?"],
    ["endpoints: {list: [{name: a, address: b}]}", "list[0].port: is missing (a number)"],
    ["endpoints: {list: [{name: a, address: b, prot: 1}]}", "did you mean `port`?"],
    ["endpoints: {list: [{name: a/b, address: a, port: 1}]}", "must not be empty or hold blanks or slashes"],
    [
      "endpoints: {list: [{name: a, address: a, port: 1}, {name: a, address: b, port: 1}]}",
      "default/a is listed twice",
    ],
    ["endpoints: {dns: {names: [{host: a.b}]}}", "`host` needs `port`"],
    ["endpoints: {dns: {names: [{srv: a.b, port: 1}]}}", "SRV records have the port; leave it out"],
    ["endpoints: {dns: {names: [{srv: a.b}], servers: [dns.local]}}", "must be the IP address of a DNS server"],
    ["picker: {profile: default, configFile: a}", "give at most one of `configFile`, `profile` and `config`"],
    ["picker: {profile: defalt}", "did you mean `default`?"],
    ["paths: {allow: [sleep]}", "must be a path such as /load_lora_adapter"],
    ["retries: {statuses: [200]}", "must be at least 400"],
    [
      "log: {requests: {which: off, file: a.log}}",
      "has no effect with `which: off`; set `which` to errors, all or 1/N",
    ],
    ["listeners: []", "must have at least one listener"],
    ["listeners: [{address: 'a:1', tls: {certificate: a}}]", "listeners[0].tls.key: is missing"],
    ["keys: {jwt: [{issuer: a, audience: a, jwks: 'http://a.b/c'}]}", "http:// is for loopback only"],
    ["limits: {file: a, rules: [{inFlight: 1}]}", "give at most one of `file` and `rules`"],
    ["limits: {rules: [{key: a}]}", "limits nothing"],
    ["limits: {rules: [{inFlight: 1}, {inFlight: 2}]}", "has the same key and model as rules[0]"],
    ["cors: {origins: [chat.example]}", "must be `*` or an origin"],
    ["servers: {tls: {certificate: a}}", "certificate and key belong together"],
    ["connections: {max: 5, perAddress: 6}", "is more than `max` (5)"],
    ["streams: {rest: 2s}", "must be at most 1000 ms"],
    ["drain: {timeout: 5}", "expected a duration with a unit"],
  ])("%s is refused", (text, problem) => {
    expect(() => fileOf(text)).toThrow(problem);
  });

  it("says which keys a flag makes idle", () => {
    const given = new GivenSettings();
    given.set("admin.open", true);
    given.set("retries.max", 1);
    expect(overridden(fileOf("retries: { statuses: [503] }\nadmin:\n  open: false\n"), given)).toEqual([
      "gateway.yaml:3:3: admin.open: --debug-open on the command line wins over this key",
    ]);
  });

  it("is valid in each form that the docs show", () => {
    const page = readFileSync(join(ROOT, "docs", "use", "gateway.md"), "utf8");
    const blocks = [...page.matchAll(/^```yaml\n(.*?)^```$/gms)].map(([, text = ""]) => text);
    const files = blocks.filter((text) => /^(# yaml-lang|endpoints:\n {2}\w)/.test(text));
    expect(files.length).toBe(3);
    for (const text of files) expect(() => fileOf(text), text).not.toThrow();
  });

  it("is valid as the example", async () => {
    const { settings } = await readGatewayFile(join(ROOT, "examples", "gateway.yaml"));
    expect(settings.endpoints).toEqual({ kind: "file", path: join(ROOT, "examples", "endpoints.yaml") });
    expect(settings.objectives).toEqual({ interactive: 10, batch: -1 });
  });
});
