import { describe, expect, it } from "vitest";
import { KeysSettings } from "../access/keys-settings.ts";
import { checkEntry } from "./access-switch.ts";

const at = { host: "0.0.0.0", port: 8443 };
const pair = { certificate: "a", key: "b" };
const none = KeysSettings.parse({});

describe("the entry of a gateway", () => {
  it.each([
    ["client certificates", [{ ...at, tls: { ...pair, clientCa: "c" } }], none],
    ["keys", [{ ...at, tls: pair }], KeysSettings.parse({ file: "k" })],
    ["tokens", [at], KeysSettings.parse({ jwt: [{ issuer: "i", audience: "a", jwks: "j" }] })],
    ["an open door", [at], KeysSettings.parse({ open: true })],
    ["loopback", [{ host: "127.0.0.1", port: 1 }], undefined],
  ])("may have %s", (_name, listeners, keys) => {
    expect(() => checkEntry(listeners, keys)).not.toThrow();
  });

  it.each([
    ["TLS without client certificates", [{ ...at, tls: pair }], none],
    ["one guarded address of two", [{ ...at, tls: { ...pair, clientCa: "c" } }, at], none],
    ["no settings", [at], undefined],
  ])("is refused with %s alone", (_name, listeners, keys) => {
    expect(() => checkEntry(listeners, keys)).toThrow("is open to other machines");
  });
});
