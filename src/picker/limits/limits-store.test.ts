import { expect, it } from "vitest";
import { type LimitsStoreSource, limitsStore } from "./limits-store.ts";

const PEERS = { url: "redis://peers", name: "llm/pool", files: {} };

it.each<[string, LimitsStoreSource, string | undefined, string | undefined, string | undefined]>([
  ["none is named", {}, undefined, undefined, undefined],
  ["a flag wins", { redis: "redis://flag", peers: PEERS }, "redis://file", "redis://flag", undefined],
  ["the file wins over the replicas", { peers: PEERS }, "redis://file", "redis://file", undefined],
  ["the store of the replicas is left", { peers: PEERS }, undefined, "redis://peers", "llm/pool"],
])("the Redis of limits: %s", (_, source, inFile, url, name) => {
  const store = limitsStore(source, inFile);
  expect([store?.connection.url, store?.name]).toEqual([url, name]);
});

it("certificates without a Redis of the limits are refused, also where the replicas have a store", () => {
  for (const peers of [undefined, PEERS])
    expect(() => limitsStore({ tls: { ca: "ca.pem" }, peers }, undefined)).toThrow(
      expect.objectContaining({ code: "FLAG_CONFLICT", message: expect.stringContaining("--limits-redis URL") }),
    );
});

it("certificates need TLS", () => {
  expect(() => limitsStore({ tls: { ca: "ca.pem" } }, "redis://file")).toThrow(
    expect.objectContaining({ code: "FLAG_CONFLICT", message: expect.stringContaining("rediss://") }),
  );
  expect(() => limitsStore({ tls: { ca: "/none/ca.pem" } }, "rediss://file")).toThrow(
    expect.objectContaining({ code: "TLS_FILE_UNREADABLE" }),
  );
});
