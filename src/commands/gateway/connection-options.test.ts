import { describe, expect, it } from "vitest";
import { command } from "../common/command.ts";
import { type ConnectionOptions, connectionsFrom, withConnectionOptions } from "./connection-options.ts";

function from(...args: string[]) {
  return connectionsFrom(
    withConnectionOptions(command("gateway", "")).parse(args, { from: "user" }).opts<ConnectionOptions>(),
  );
}

describe("the connection flags of the gateway", () => {
  it("are, by default, plain HTTP on loopback", () => {
    expect(from()).toEqual({
      listeners: [{ host: "127.0.0.1", port: 8080, tls: undefined }],
      serverTls: undefined,
      cors: undefined,
      clients: { connections: 10_000, connectionsPerAddress: undefined },
    });
  });

  it("set TLS for clients and for model servers, origins and limits", () => {
    const client = ["--tls-cert", "a", "--tls-key", "b", "--client-ca", "c"];
    const server = ["--server-ca", "d", "--server-name", "e", "--server-cert", "f", "--server-key", "g"];
    const more = [
      "--cors-origin",
      "https://A.example/",
      "--cors-origin",
      "*",
      "--max-connections",
      "9",
      "--max-connections-per-address",
      "8",
    ];
    expect(from(...client, ...server, ...more)).toEqual({
      listeners: [{ host: "127.0.0.1", port: 8080, tls: { certificate: "a", key: "b", clientCa: "c" } }],
      serverTls: { ca: "d", serverName: "e", certificate: "f", key: "g" },
      cors: { origins: ["https://a.example", "*"] },
      clients: { connections: 9, connectionsPerAddress: 8 },
    });
    expect(from("--server-tls").serverTls).toEqual({});
  });

  it.each([
    [["--tls-cert", "a"], "--tls-cert needs --tls-key"],
    [["--tls-key", "a"], "--tls-key needs --tls-cert"],
    [["--client-ca", "a"], "--client-ca needs TLS"],
    [["--server-key", "a"], "--server-key needs --server-cert"],
    [["--cors-origin", "chat.example"], "is not an origin"],
    [["--cors-origin", "https://chat.example/path"], "is not an origin"],
    [["--max-connections", "3"], "--max-connections"],
    [["--max-connections", "9", "--max-connections-per-address", "10"], "--max-connections-per-address"],
  ])("%j is an error that says why", (args, message) => {
    expect(() => from(...args)).toThrow(message);
  });
});
