import { describe, expect, it } from "vitest";
import { pluginContextOf } from "../../../test/support/plugin-context.ts";
import { metricsDataSource } from "./metrics-data-source.ts";

function sourceOf(parameters: object) {
  return metricsDataSource.create(metricsDataSource.parameters.parse(parameters), pluginContextOf("source"));
}

function problems(parameters: object): string[] {
  const { error } = metricsDataSource.parameters.safeParse(parameters);
  return (error?.issues ?? []).map(({ path, message }) => `${path.join(".")}: ${message}`);
}

function notes(parameters: object): readonly string[] {
  return metricsDataSource.notes!(metricsDataSource.parameters.parse(parameters));
}

describe("metrics-data-source", () => {
  it("has the reference's defaults (scheduling 1.8)", () => {
    expect(sourceOf({})).toEqual({
      scheme: "http",
      path: "/metrics",
      port: undefined,
      insecureSkipVerify: true,
      caCertPath: "",
      clientCertPath: "",
      clientKeyPath: "",
      interval: undefined,
    });
  });

  it("takes every parameter, and 0s for no interval of its own", () => {
    const parameters = {
      ...{ scheme: "https", path: "/stats?x=1", port: 8002, insecureSkipVerify: false },
      ...{ caCertPath: "/ca", clientCertPath: "/crt", clientKeyPath: "/key" },
    };
    expect(sourceOf({ ...parameters, interval: "1m0.2s" })).toEqual({ ...parameters, interval: 60_200 });
    expect(sourceOf({ interval: "0s" })).toMatchObject({ interval: undefined });
  });

  it("refuses what cannot work, each with its remedy, and what it does not know", () => {
    expect(problems({ scheme: "ftp", path: "metrics", port: 0, insecureSkipVerify: "no", interval: "-1s" })).toEqual([
      "scheme: scheme must be http or https",
      "path: path must begin with a slash and have no blanks; write for example /metrics",
      "port: port must be from 1 to 65535; leave it out for the default",
      "insecureSkipVerify: insecureSkipVerify must be true or false",
      "interval: must be at least 0ms, got -1s",
    ]);
    expect(problems({ path: "/a b", port: 65_536 })).toHaveLength(2);
    expect(problems({ port: 80.5 })).toEqual(["port: port must be a whole number from 1 to 65535"]);
    expect(problems({ clientKeyPath: "/key" })).toEqual([
      "clientKeyPath: clientKeyPath needs clientCertPath, too; give both or none",
    ]);
    expect(problems({ clientCertPath: "/crt" })).toEqual([
      "clientCertPath: clientCertPath needs clientKeyPath, too; give both or none",
    ]);
    expect(problems({ ports: 1 })).toHaveLength(1);
  });

  it("tells of parameters that change nothing, and of an interval that is raised (S-5)", () => {
    expect(notes({ interval: "50ms", path: "/x" })).toEqual([]);
    expect(notes({ interval: "10ms" })).toEqual(["interval 10ms is raised to 50ms, the minimum"]);
    expect(notes({ insecureSkipVerify: false, caCertPath: "/ca", clientCertPath: "/c", clientKeyPath: "/k" })).toEqual([
      "these have no effect over http: insecureSkipVerify, caCertPath, clientCertPath, clientKeyPath; write scheme: https if the pages are served over TLS",
    ]);
    expect(notes({ scheme: "https", caCertPath: "/ca" })).toEqual([
      "caCertPath has no effect while insecureSkipVerify is true, its default; write insecureSkipVerify: false",
    ]);
    expect(notes({ scheme: "https", caCertPath: "/ca", insecureSkipVerify: false })).toEqual([]);
  });
});
