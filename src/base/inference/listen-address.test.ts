import { describe, expect, it } from "vitest";
import { parseReadyLine, readyLine } from "../process/lifecycle.ts";
import { listenFailed, parseListenAddress } from "./listen-address.ts";

describe("parseListenAddress", () => {
  it.each([
    ["127.0.0.1:8080", "127.0.0.1", 8080],
    ["localhost:0", "localhost", 0],
    ["[::1]:9002", "::1", 9002],
    [":9090", "0.0.0.0", 9090],
    ["8080", "127.0.0.1", 8080],
  ])("reads %s", (text, host, port) => {
    expect(parseListenAddress(text, "--listen")).toEqual({ host, port });
  });

  it.each(["", "host", "host:", "host:99999", "::1:80", "a b:80", "host:-1"])(
    "refuses %j and says what to write",
    (text) => {
      expect(() => parseListenAddress(text, "--listen")).toThrow(/--listen ".*" is not an address.*127\.0\.0\.1:8080/);
    },
  );
});

describe("the ready line", () => {
  it("can be read back, and nothing else is taken for it", () => {
    const line = readyLine({ name: "gateway", address: "[::1]:80" }, 42);
    expect(parseReadyLine(line)).toEqual({ name: "gateway", address: "[::1]:80", pid: 42 });
    expect(parseReadyLine("listening to the radio")).toBeUndefined();
  });
});

describe("an address that is not free", () => {
  it.each([
    ["listen EADDRINUSE: address already in use 0.0.0.0:80", "address already in use (EADDRINUSE)"],
    ["listen EADDRINUSE: address already in use :::80", "address already in use (EADDRINUSE)"],
    ["listen EACCES: permission denied 127.0.0.1:80", "permission denied (EACCES)"],
    ["getaddrinfo ENOTFOUND nowhere", "getaddrinfo ENOTFOUND nowhere"],
  ])("is named once: %s", (message, problem) => {
    const cause = new Error(message);
    expect(listenFailed("0.0.0.0:80", cause)).toMatchObject({
      ...{ code: "LISTEN_FAILED", message: `cannot listen on 0.0.0.0:80: ${problem}`, cause },
    });
  });
});
