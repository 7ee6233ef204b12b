import { describe, expect, it } from "vitest";
import { expandHosts, MAX_HOST_LIST, MAX_HOSTS } from "./host-list.ts";

const hosts = (text: string): readonly string[] | undefined => {
  const list = expandHosts(text);
  return "hosts" in list ? list.hosts : undefined;
};

describe("a host list", () => {
  it.each([
    ["login1", ["login1"]],
    ["gpu[01-03,07],login1", ["gpu01", "gpu02", "gpu03", "gpu07", "login1"]],
    ["gpu[1-2]-[0-1]", ["gpu1-0", "gpu1-1", "gpu2-0", "gpu2-1"]],
    ["gpu[8-11]", ["gpu8", "gpu9", "gpu10", "gpu11"]],
    ["gpu[008-011].cluster", ["gpu008", "gpu009", "gpu010", "gpu011"].map((name) => `${name}.cluster`)],
    ["gpu[0-1]", ["gpu0", "gpu1"]],
    ["gpu[7]", ["gpu7"]],
    [" a,\n b\tc,,", ["a", "b", "c"]],
    ["10.0.0.[1-2]", ["10.0.0.1", "10.0.0.2"]],
    ["GPU1,gpu1,a[1,1]", ["gpu1", "a1"]],
  ])("%j", (text, expected) => {
    expect(hosts(text)).toEqual(expected);
  });

  it.each([
    ["", 0, "the host list is empty"],
    [" , ", 0, "the host list is empty"],
    ["a,gpu[1-2", 5, "`[` has no `]` behind it"],
    ["gpu1-2]", 6, "`]` has no `[` before it"],
    ["gpu[]", 4, '"" is not a number'],
    ["gpu[1-]", 4, '"1-" is not a number or a range such as 01-16'],
    ["gpu[1-2-3]", 4, '"1-2-3" is not a number'],
    ["gpu[a-c]", 4, '"a-c" is not a number'],
    ["gpu[1[2]]", 5, "write only numbers between"],
    ["gpu[1, 2]", 6, '"" is not a number'],
    ["gpu[3-1]", 4, "the range 3-1 ends before it begins"],
    ["gpu[1-010]", 4, "need the same number of digits"],
    ["ok,gp/u[1-2]", 3, "a host must be an IP address or a host name"],
    ["169.254.1.1", 0, "is link-local"],
    [`gpu[0-${MAX_HOSTS}]`, 4, `more than ${MAX_HOSTS} hosts`],
    ["gpu[0-999999999]", 4, `more than ${MAX_HOSTS} hosts`],
    ["a[0-99]b[0-99]", 0, `more than ${MAX_HOSTS} hosts`],
    ["a[0-4000],b[0-4000]", 10, `more than ${MAX_HOSTS} hosts`],
    ["a".repeat(MAX_HOST_LIST + 1), 0, "longer than"],
  ])("%j is refused", (text, at, problem) => {
    expect(expandHosts(text)).toEqual({ at, problem: expect.stringContaining(problem) });
  });

  it("has at most 4,096 hosts, also of names that come twice", () => {
    expect(hosts(`gpu[1-${MAX_HOSTS}]`)).toHaveLength(MAX_HOSTS);
    expect(hosts(`${"a,".repeat(MAX_HOSTS)}`)).toEqual(["a"]);
    expect(expandHosts(`${"a,".repeat(MAX_HOSTS + 1)}`)).toMatchObject({
      problem: expect.stringContaining("more than"),
    });
  });
});
