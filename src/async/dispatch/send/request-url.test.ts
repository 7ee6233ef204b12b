import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { checkBaseUrl, isAllowed, joinUrl } from "./outbound.ts";

describe("A-76: the URL of a request", () => {
  it.each([
    ["http://gw", "/v1/completions", "http://gw/v1/completions"],
    ["http://gw/", "/v1/completions", "http://gw/v1/completions"],
    ["http://gw/", "v1/completions", "http://gw/v1/completions"],
    ["http://gw", "v1/completions", "http://gw/v1/completions"],
    ["http://gw//", "//v1///completions", "http://gw/v1/completions"],
    ["http://gw:8080/api", "/v1/completions", "http://gw:8080/api/v1/completions"],
    ["http://gw/api/", "/v1/completions/", "http://gw/api/v1/completions/"],
    ["http://gw/api//x", "", "http://gw/api/x"],
    ["http://gw/api/", "", "http://gw/api"],
    ["http://gw", "", "http://gw/"],
    ["http://gw", "/", "http://gw/"],
    ["http://gw?tenant=a&b=c#part", "/v1/completions", "http://gw/v1/completions?tenant=a&b=c"],
    ["https://[::1]:8443/api?x=1", "v1", "https://[::1]:8443/api/v1?x=1"],
    ["http://GW.Example/Api", "/V1", "http://gw.example/Api/V1"],
    ["http://gw/api", "./a/./b", "http://gw/api/a/b"],
    ["http://gw/api/v1", "../v2/x", "http://gw/api/v2/x"],
    ["http://gw/api", "../../../../etc/../x", "http://gw/x"],
    ["http://gw/api", "%2e%2e/%2E./x", "http://gw/x"],
    ["http://gw", "/v1/completions?model=m", "http://gw/v1/completions%3Fmodel=m"],
    ["http://gw?a=1", "/v1#b?c", "http://gw/v1%23b%3Fc?a=1"],
    ["http://gw", "/a b\\c\t\n\u0000", "http://gw/a%20b%5Cc%09%0A%00"],
    ["http://gw", "/é/😀/\ud800", "http://gw/%C3%A9/%F0%9F%98%80/%EF%BF%BD"],
    ["http://gw", "/a%2Fb/100%/%zz", "http://gw/a%2Fb/100%25/%25zz"],
    ["http://gw", "//evil.example/x", "http://gw/evil.example/x"],
    ["http://gw", "http://evil.example/x", "http://gw/http:/evil.example/x"],
    ["http://gw", "@evil.example", "http://gw/@evil.example"],
    ["http://user:pw@gw/", "/v1", "http://gw/v1"],
  ])("%s and %j", (base, path, url) => {
    expect(joinUrl(new URL(base), path).href).toBe(url);
  });

  it("no path leads to another host, query or fragment", () => {
    const base = new URL("http://gw:81/api?k=v");
    fc.assert(
      fc.property(
        fc.array(fc.nat(0x10ffff), { maxLength: 20 }).map((codes) => String.fromCodePoint(...codes)),
        fc.array(fc.constantFrom("/", "..", ".", "?", "#", "@", ":", "\\", "%2e", "%2f", "%", "\t", "\ud800")),
        (text, marks) => {
          for (const path of [text, marks.join(""), marks.join(text)]) {
            const url = joinUrl(base, path);
            expect([url.origin, url.search, url.hash, url.username]).toEqual(["http://gw:81", "?k=v", "", ""]);
            expect(url.pathname).not.toMatch(/\/\/|\/\.\.?(\/|$)/);
            expect(new URL(url.href).href).toBe(url.href);
          }
        },
      ),
    );
  });
});

describe("a base URL", () => {
  it.each(["http://gw", "https://gw:8443/a?b=c", "http://10.0.0.1", "http://[::1]:80", "http://u%40:p@gw"])(
    "%s will do",
    (text) => {
      expect(checkBaseUrl(text)).toBeUndefined();
    },
  );

  it.each([
    ["", "Invalid URL; a base URL looks like http://gateway:80"],
    ["gateway", "Invalid URL; a base URL looks like http://gateway:80"],
    ["gateway:80", "its scheme is gateway, not http or https; a base URL looks like http://gateway:80"],
    ["/v1", "Invalid URL; a base URL looks like http://gateway:80"],
    ["http://", "Invalid URL; a base URL looks like http://gateway:80"],
    ["http://gw:99999", "Invalid URL; a base URL looks like http://gateway:80"],
    ["ftp://gw", "its scheme is ftp, not http or https; a base URL looks like http://gateway:80"],
    ["http://a%zz@gw", "URI malformed; a base URL looks like http://gateway:80"],
  ])("%j is none", (text, problem) => {
    expect(checkBaseUrl(text)).toBe(problem);
  });
});

describe("H-46: the paths that an endpoint may name", () => {
  const allowed = (base: string, path: string, prefixes: string[]): boolean => {
    const url = new URL(base);
    return isAllowed(joinUrl(url, path), url, prefixes);
  };

  it.each([
    ["/v1/chat/completions", ["/v1"]],
    ["/v1/chat/completions", ["v1/"]],
    ["/v1/chat/completions", ["/v2", "/v1/chat"]],
    ["/v1/chat/completions", ["/v1/chat/completions"]],
    ["/v1/chat/completions/", ["/v1/chat/completions"]],
    ["/v1/x/../chat", ["/v1/chat"]],
    ["/anything", ["/"]],
  ])("%s lies below one of %j, with whatever base", (path, prefixes) => {
    for (const base of ["http://gw", "http://gw/", "http://gw/api/v9", "http://gw//api/"])
      expect(allowed(base, path, prefixes)).toBe(true);
  });

  it.each([
    ["/v1/chatter", ["/v1/chat"]],
    ["/v1", ["/v1/chat"]],
    ["/v1/../admin", ["/v1"]],
    ["/v1/%2e%2e/admin", ["/v1"]],
    ["/v1/.%2E/admin", ["/v1"]],
    ["/v1/..%2fadmin", ["/v1"]],
    ["/v1/..%5Cadmin", ["/v1"]],
    ["/v1/..\\admin", ["/v1"]],
    ["/%761/chat", ["/v1"]],
    ["../../v1/chat", ["/v2"]],
    ["/v1?/../../v2", ["/v1"]],
    ["/v1/chat", []],
  ])("%s does not lie below any of %j", (path, prefixes) => {
    for (const base of ["http://gw", "http://gw/api"]) expect(allowed(base, path, prefixes)).toBe(false);
  });

  it("a base's own path is left with no endpoint", () => {
    expect(allowed("http://gw/api", "../v1/chat", ["/v1"])).toBe(false);
    expect(allowed("http://gw/api", "../api/v1/chat", ["/v1"])).toBe(true);
    expect(allowed("http://gw/api", "../apiv1", ["/"])).toBe(false);
  });
});
