import { describe, expect, it } from "vitest";
import { parseRedisUrl, redactUrl, tlsOptions } from "./address.ts";

describe("parseRedisUrl", () => {
  it("reads host, port, database, user and password", () => {
    expect(parseRedisUrl("redis://queue:p%40ss%2Fword@broker.example:6380/3?client_name=batch&pool_size=10")).toEqual({
      host: "broker.example",
      port: 6380,
      others: [],
      sentinel: undefined,
      tls: false,
      username: "queue",
      password: "p@ss/word",
      database: 3,
      clientName: "batch",
      ignored: ["pool_size"],
    });
  });

  it("has defaults for everything but the scheme", () => {
    expect(parseRedisUrl("rediss://broker")).toMatchObject({ host: "broker", port: 6379, tls: true, database: 0 });
    expect(parseRedisUrl("redis://[::1]:7000?db=2")).toMatchObject({ host: "::1", port: 7000, database: 2 });
    expect(parseRedisUrl("redis://")).toMatchObject({ host: "localhost", username: "", password: "" });
  });

  it("reads Sentinels and the nodes of a cluster", () => {
    const url =
      "redis://queue:secret@one:26379/1?master_name=mine&addr=two:26380&addr=[::1]&sentinel_username=s&sentinel_password=p";
    expect(parseRedisUrl(url)).toMatchObject({
      host: "one",
      port: 26_379,
      others: [
        { host: "two", port: 26_380 },
        { host: "::1", port: 6379 },
      ],
      sentinel: { primary: "mine", username: "s", password: "p" },
      username: "queue",
      database: 1,
      ignored: [],
    });
    expect(parseRedisUrl("redis://one?addr=two:7000")).toMatchObject({
      others: [{ host: "two", port: 7000 }],
      sentinel: undefined,
    });
  });

  it("refuses more places than it keeps", () => {
    const url = (count: number): string => `redis://one?${"addr=two&".repeat(count)}`;
    expect(parseRedisUrl(url(31)).others).toHaveLength(31);
    expect(() => parseRedisUrl(url(32))).toThrow(expect.objectContaining({ code: "REDIS_URL_INVALID" }));
  });

  it.each([
    ["no scheme at all", "it is not a URL"],
    ["redis://one?addr=two:0", "each addr must be HOST:PORT"],
    ["redis://one?addr=two:65536", "each addr must be HOST:PORT"],
    ["redis://one?addr=user:secret@two", "each addr must be HOST:PORT"],
    ["redis://one?master_name=", "master_name must name"],
    ["redis://one?sentinel_password=secret", "need master_name"],
    ["http://:secret@broker", "the URL must begin with redis:// or rediss://"],
    ["redis://:secret@broker/first", "the database must be a number"],
    ["redis://:secret@broker/-1", "the database must be a number"],
    ["redis://:secret%zz@broker", "not correctly percent-encoded"],
    ["redis://:secret@broker:99999", "it is not a URL"],
  ])("refuses %s and says why, without the password", (url, problem) => {
    expect(() => parseRedisUrl(url)).toThrow(
      expect.objectContaining({ code: "REDIS_URL_INVALID", message: expect.stringContaining(problem) }),
    );
    expect(() => parseRedisUrl(url)).not.toThrow(/secret/);
  });
});

describe("redactUrl", () => {
  it.each([
    ["redis://user:secret@broker:6379/1?password=secret", "redis://broker:6379/1"],
    ["rediss://:sec/r?e#t@broker", "rediss://broker"],
    ["user:secret@broker:6379", "broker:6379"],
    ["redis://broker", "redis://broker"],
  ])("%s becomes %s", (url, shown) => {
    expect(redactUrl(url)).toBe(shown);
  });
});

describe("tlsOptions", () => {
  it("wants TLS 1.2 and names the server only when it has a name", () => {
    const named = tlsOptions(parseRedisUrl("rediss://broker.example"), { ca: "CA", cert: "CERT", key: "KEY" });
    expect(named).toEqual({
      tls: true,
      minVersion: "TLSv1.2",
      ca: "CA",
      cert: "CERT",
      key: "KEY",
      servername: "broker.example",
    });
    const numbered = tlsOptions(parseRedisUrl("rediss://127.0.0.1"), {});
    expect(numbered).not.toHaveProperty("servername");
    expect(numbered.ca.length).toBeGreaterThan(10);
  });
});
