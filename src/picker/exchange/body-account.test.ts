import { describe, expect, it } from "vitest";
import { HeaderList } from "../../base/inference/headers.ts";
import { clientAddressOf } from "./body-account.ts";

const of = (...forwarded: string[]) =>
  clientAddressOf(HeaderList.of(forwarded.map((value) => ["x-forwarded-for", value] as const)), undefined);

describe("the address that a request counts for", () => {
  it.each([
    ["10.0.0.1", "10.0.0.1"],
    ["1.1.1.1, 2.2.2.2,10.0.0.1", "10.0.0.1"],
    ["10.0.0.1:4711", "10.0.0.1"],
    ["::ffff:10.0.0.1", "10.0.0.1"],
    ["2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"],
    ["[2001:DB8:1:2::1]:443", "2001:db8:1:2::/64"],
    ["2001:db8::1", "2001:db8:0:0::/64"],
    ["2001:0db8:0000:0000:1::", "2001:db8:0:0::/64"],
    ["::1", "0:0:0:0::/64"],
    ["", ""],
    ["x".repeat(65), ""],
  ])("x-forwarded-for: %s is %s", (header, address) => {
    expect(of(header)).toBe(address);
  });

  it("is that of the last line, and nobody's without one", () => {
    expect(of("1.1.1.1", "2.2.2.2")).toBe("2.2.2.2");
    expect(of()).toBe("");
  });

  it("is what the wire knows, before any header", () => {
    const headers = HeaderList.of([["x-forwarded-for", "1.1.1.1"]]);
    expect(clientAddressOf(headers, "10.0.0.1:4711")).toBe("10.0.0.1");
  });
});
