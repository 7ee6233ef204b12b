import { describe, expect, it } from "vitest";
import { corsSchema } from "./cors-settings.ts";
import { listenersOf, listenersSchema } from "./listener-settings.ts";
import { serversSchema } from "./server-tls-settings.ts";

const problems = (result: {
  error?: { issues: readonly { path: readonly PropertyKey[]; message: string }[] } | undefined;
}) => result.error?.issues.map(({ path, message }) => `${path.join(".")}: ${message}`);

describe("the sections of gateway.yaml for connections", () => {
  it("listeners: addresses, with TLS or without, and paths from the folder of the file", () => {
    const tls = { certificate: "tls.crt", key: "tls.key", clientCa: "ca.crt" };
    const settings = listenersSchema.parse([{ address: "0.0.0.0:8443", tls }, { address: "8080" }]);
    expect(listenersOf(settings, (path) => `/etc/${path}`)).toEqual([
      {
        host: "0.0.0.0",
        port: 8443,
        tls: { certificate: "/etc/tls.crt", key: "/etc/tls.key", clientCa: "/etc/ca.crt" },
      },
      { host: "127.0.0.1", port: 8080, tls: undefined },
    ]);
  });

  it.each([
    [[], ": must have at least one listener"],
    [[{ address: "localhost" }], "0.address: must be host:port"],
    [[{ address: "1", tls: { certificate: "a" } }], "0.tls.key"],
    [[{ address: "1", tls: { certificate: "a", key: "b", ca: "c" } }], 'Unrecognized key: "ca"'],
  ])("listeners: %j is refused", (value, problem) => {
    expect(problems(listenersSchema.safeParse(value))?.join("\n")).toContain(problem);
  });

  it("cors: origins as browsers send them, or all", () => {
    expect(corsSchema.parse({ origins: ["https://A.example:8443", "*"] })).toEqual({
      origins: ["https://a.example:8443", "*"],
    });
    for (const wrong of ["a.example", "ftp://a.example", "https://a.example/path", "null"])
      expect(problems(corsSchema.safeParse({ origins: [wrong] }))?.[0]).toContain(
        "origins.0: must be `*` or an origin",
      );
  });

  it("servers: a certificate needs its key", () => {
    expect(serversSchema.parse({ tls: { ca: "a", serverName: "b" } })).toEqual({ tls: { ca: "a", serverName: "b" } });
    expect(problems(serversSchema.safeParse({ tls: { certificate: "a" } }))).toEqual([
      "tls: certificate and key belong together",
    ]);
  });
});
