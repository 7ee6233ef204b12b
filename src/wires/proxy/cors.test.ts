import { afterEach, describe, expect, it } from "vitest";
import { answerBytes } from "../../../test/support/loopback.ts";
import { ProxyHarness, pathTable } from "../../../test/support/proxy-harness.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import type { ProxyOptions } from "./options.ts";

let harness: ProxyHarness;
afterEach(() => harness.close());

const OWN = "https://chat.example";

async function asked(origins: readonly string[], request: string, options: Partial<ProxyOptions> = {}) {
  harness = new ProxyHarness();
  const theirs = "access-control-allow-origin: https://theirs\r\nvary: accept\r\n";
  const model = await harness.model(({ socket }) => socket.write(answerBytes(200, "served", theirs)));
  await harness.start({ endpoints: [model.endpoint] }, { cors: { origins }, ...options });
  const text = await harness.ask(request);
  const lines = text.split("\r\n\r\n")[0]!.toLowerCase().split("\r\n");
  const values = (name: string) =>
    lines.filter((line) => line.startsWith(`${name}: `)).map((line) => line.slice(name.length + 2));
  return { text, values, served: model.requests.length };
}

function preflight(origin: string, headers = "authorization, content-type", path = "/v1/chat/completions"): string {
  return `OPTIONS ${path} HTTP/1.1\r\nhost: gw\r\norigin: ${origin}\r\naccess-control-request-method: POST\r\naccess-control-request-headers: ${headers}\r\nconnection: close\r\n\r\n`;
}

function get(origin: string, path = "/v1/models"): string {
  return `GET ${path} HTTP/1.1\r\nhost: gw\r\norigin: ${origin}\r\nconnection: close\r\n\r\n`;
}

describe("CORS", () => {
  it("a preflight of Anthropic's API, which has no body, is answered like any other", async () => {
    const { text, values } = await asked([OWN], preflight(OWN, "x-api-key, anthropic-version", "/v1/messages"));
    expect(text).toMatch(/^HTTP\/1\.1 204 /);
    expect(values("access-control-allow-origin")).toEqual([OWN]);
  });

  it("the gateway itself answers a preflight, and asks for no key", async () => {
    const nobody = { authenticate: () => new Rejection("bad_request", "no key") };
    const { text, values, served } = await asked([OWN], preflight("https://Chat.example"), nobody);
    expect(text).toMatch(/^HTTP\/1\.1 204 /);
    expect(values("access-control-allow-origin")).toEqual([OWN]);
    expect(values("access-control-allow-headers")).toEqual(["authorization, content-type"]);
    expect(values("access-control-allow-methods")[0]).toContain("post");
    expect(values("access-control-allow-credentials")).toEqual(["true"]);
    expect(values("vary")).toContain("origin");
    expect([served, harness.exchanges.length]).toEqual([0, 0]);
  });

  it("another origin gets no permission", async () => {
    const { text, values, served } = await asked([OWN], preflight("https://evil.example"));
    expect(text).toMatch(/^HTTP\/1\.1 204 /);
    expect(text.toLowerCase()).not.toContain("access-control-");
    expect(values("vary")).toEqual(["origin"]);
    expect(served).toBe(0);
  });

  it("an answer of a model server has the headers of the gateway in place of its own", async () => {
    const { text, values } = await asked([OWN], get(OWN));
    expect(text).toMatch(/served$/);
    expect(values("access-control-allow-origin")).toEqual([OWN]);
    expect(values("access-control-expose-headers")[0]).toContain("x-request-id");
    expect(values("vary")).toEqual(["accept", "origin"]);
  });

  it("a page of another origin may not read an answer", async () => {
    const { values } = await asked([OWN], get("https://evil.example"));
    expect(values("access-control-allow-origin")).toEqual([]);
    expect(values("vary")).toEqual(["accept", "origin"]);
  });

  it("`*` lets every page read, and none with credentials", async () => {
    const { values } = await asked(["*"], get("https://any.example"));
    expect(values("access-control-allow-origin")).toEqual(["*"]);
    expect(values("access-control-allow-credentials")).toEqual([]);
    expect(values("vary")).toEqual(["accept"]);
  });

  it("a refusal can be read by the page, too", async () => {
    const { text, values } = await asked([OWN], get(OWN, "/metrics"), { paths: pathTable() });
    expect(text).toMatch(/^HTTP\/1\.1 403 /);
    expect(values("access-control-allow-origin")).toEqual([OWN]);
  });

  it.each(["a\x01b", "a,,b", "a: b"])("header names that are none (%j) are not repeated", async (names) => {
    const { values } = await asked([OWN], preflight(OWN, names));
    expect(values("access-control-allow-headers")).toEqual([]);
  });

  it("a request without an origin, or OPTIONS without a question, is like any other", async () => {
    const { values, served } = await asked(
      [OWN],
      "OPTIONS /v1/models HTTP/1.1\r\nhost: gw\r\norigin: https://chat.example\r\nconnection: close\r\n\r\n",
    );
    expect(served).toBe(1);
    expect(values("access-control-allow-methods")).toEqual([]);
  });
});
