import { describe, expect, it } from "vitest";
import { zeroMqSockets } from "./zeromq-sockets.ts";

describe("zeroMqSockets", () => {
  it("names the command that installs the package where it is missing", () => {
    const missing = (): never => {
      throw new Error("Cannot find module 'zeromq'");
    };
    expect(() => zeroMqSockets(missing)).toThrow(
      "KV-cache events need the package zeromq (npm install zeromq@6): Cannot find module 'zeromq'",
    );
  });

  it("loads the package where it is there", () => {
    expect(zeroMqSockets().subscribe).toBeTypeOf("function");
  });
});
