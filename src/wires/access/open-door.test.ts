import { expect, it } from "vitest";
import { checkDoor } from "./open-door.ts";

const at = (host: string) => [{ host, port: 8080 }];

it.each(["127.0.0.1", "127.9.9.9", "::1", "localhost", "::ffff:127.0.0.1"])("%s needs no keys", (host) => {
  expect(() => checkDoor(at(host), false, false)).not.toThrow();
});

it.each([
  "0.0.0.0",
  "::",
  "10.0.0.1",
  "127.example.com",
  "localhost.example.com",
  "gateway",
  "::ffff:10.0.0.1",
  "128.0.0.1",
])("%s needs keys, or the wish of the operator", (host) => {
  expect(() => checkDoor(at(host), false, false)).toThrow(/is open to other machines.*--keys FILE.*--open/);
  expect(() => checkDoor([...at("127.0.0.1"), ...at(host)], false, false)).toThrow("is open to other machines");
  expect(() => checkDoor(at(host), true, false)).not.toThrow();
  expect(() => checkDoor(at(host), false, true)).not.toThrow();
});

it("an open door with keys contradicts itself", () => {
  expect(() => checkDoor(at("::1"), true, true)).toThrow(expect.objectContaining({ code: "FLAG_CONFLICT" }));
});
