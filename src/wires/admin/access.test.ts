import { describe, expect, it } from "vitest";
import { type AdminRequest, CANCEL_PATH, isLoopback, loopbackOnly } from "./access.ts";

const from = (peer: string, path: string): AdminRequest => ({ peer, path, method: "GET", authorization: undefined });

const PUBLIC = ["/metrics", "/healthz", "/ready"];
const GUARDED = [
  "/",
  "/debug/feed/stream",
  "/debug/endpoints",
  "/debug/decisions",
  "/debug/decisions/1",
  "/debug/peers",
  "/nothing",
  "/metrics/",
];
const STRANGERS = ["10.0.0.7", "::ffff:10.0.0.7", "2001:db8::1", ""];

describe("isLoopback", () => {
  it.each(["127.0.0.1", "127.255.3.4", "::1", "::ffff:127.0.0.1", "::ffff:127.9.9.9"])("takes %s", (address) => {
    expect(isLoopback(address)).toBe(true);
  });

  it.each([
    "10.0.0.7",
    "0.0.0.0",
    "1.127.0.1",
    "1270.0.0.1",
    "12.7.0.1",
    "::",
    "::2",
    "fe80::1",
    "::ffff:10.0.0.7",
    "2001:db8::127.0.0.1",
    "localhost",
    "",
  ])("refuses %j", (address) => {
    expect(isLoopback(address)).toBe(false);
  });
});

describe("loopbackOnly", () => {
  it.each(PUBLIC)("lets everyone read %s", (path) => {
    for (const peer of [...STRANGERS, "127.0.0.1"]) expect(loopbackOnly(false)(from(peer, path))).toBeUndefined();
  });

  it.each(GUARDED)("answers %s to this machine alone and tells others what to change", (path) => {
    const rule = loopbackOnly(false);
    for (const peer of ["127.0.0.1", "::1", "::ffff:127.0.0.1"]) expect(rule(from(peer, path))).toBeUndefined();
    for (const peer of STRANGERS)
      expect(rule(from(peer, path))).toEqual({ status: 403, message: expect.stringMatching(/loopback.*--debug-open/) });
  });

  it("answers everyone everything once opened", () => {
    for (const path of [...PUBLIC, ...GUARDED])
      for (const peer of STRANGERS) expect(loopbackOnly(true)(from(peer, path))).toBeUndefined();
  });
});

describe("a path that changes something", () => {
  it("answers this machine alone, also when the rest is open to everyone", () => {
    for (const open of [false, true]) {
      const rule = loopbackOnly(open);
      expect(rule(from("127.0.0.1", CANCEL_PATH))).toBeUndefined();
      expect(rule({ ...from("127.0.0.1", CANCEL_PATH), host: "evil.example" })).toMatchObject({ status: 403 });
      for (const peer of STRANGERS)
        expect(rule(from(peer, CANCEL_PATH))).toEqual({
          ...{ status: 403, message: `${CANCEL_PATH} answers only clients on loopback` },
        });
    }
  });
});

describe("a browser that was led here under a foreign name", () => {
  const ask = (host: string, path = "/debug/endpoints") => loopbackOnly(false)({ ...from("127.0.0.1", path), host });

  it.each(["localhost", "localhost:19001", "127.0.0.1:19001", "[::1]:19001", "10.1.2.3"])(
    "%s is no foreign name",
    (host) => {
      expect(ask(host)).toBeUndefined();
    },
  );

  it.each(["evil.example", "evil.example:19001", "localhost.evil.example", "127.0.0.1.evil.example:80", ""])(
    "%j is refused",
    (host) => {
      expect(ask(host)).toEqual({
        status: 403,
        message: expect.stringContaining("answers requests to an IP address or localhost"),
      });
      expect(ask(host, "/metrics")).toBeUndefined();
    },
  );
});
