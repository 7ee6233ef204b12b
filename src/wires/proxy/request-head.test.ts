import { describe, expect, it } from "vitest";
import { BadRequest } from "./bad-request.ts";
import { originForm } from "./request-head.ts";

describe("originForm", () => {
  it.each([
    ["/v1/models", "/v1/models"],
    ["/", "/"],
    ["//double", "//double"],
    ["/v1/chat?x=%2f../..\\y%5c", "/v1/chat?x=%2f../..\\y%5c"],
    ["/files/a.b..c/...", "/files/a.b..c/..."],
    ["/a%20b/%7Ec", "/a%20b/%7Ec"],
    ["http://gw/v1", "/v1"],
    ["HTTP://GW:80/v1?a#".slice(0, -1), undefined],
    ["http://gw", "/"],
    ["http://gw?a=b", "/?a=b"],
  ])("%s is %s", (target, path) => {
    const found = originForm(target, "gw");
    if (path === undefined) expect(found).toBeInstanceOf(BadRequest);
    else expect(found).toBe(path);
  });

  it.each([
    "/a/../b",
    "/..",
    "/a/.",
    "/./a",
    "/a/%2e%2e/b",
    "/a/.%2E",
    "/a/..;/b",
    "/a%2Fb",
    "/a%5Cb",
    "/a\\b",
    "/a%00",
  ])("%s is refused", (target) => {
    expect(originForm(target, "gw")).toMatchObject({ status: 400 });
  });

  it.each(["", "*", "gw:443", "ftp://gw/", "http://other/", "http://gw@other/", "/a b", "/a#b", "/\u00e9", "/a\tb"])(
    "%j is no path of ours",
    (target) => {
      expect(originForm(target, "gw")).toMatchObject({ status: 400 });
    },
  );
});
