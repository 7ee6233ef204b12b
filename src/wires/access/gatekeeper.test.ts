import { describe, expect, it } from "vitest";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { parseDocument } from "../../base/document/parse.ts";
import type { Caller } from "../../base/inference/caller.ts";
import { HeaderList } from "../../base/inference/headers.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import { Gatekeeper } from "./gatekeeper.ts";
import { keysIn } from "./key-entry.ts";
import { KeyTable } from "./key-table.ts";
import { newKey } from "./key-text.ts";
import type { Tokens } from "./tokens.ts";

const { id, key, hash } = newKey(undefined);
const TOKEN = "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJ1In0.c2ln";
const FLOW = [
  ["x-llm-d-inference-objective", "o"],
  ["x-gateway-inference-objective", "o"],
  ["x-llm-d-inference-fairness-id", "f"],
  ["x-gateway-inference-fairness-id", "f"],
] as const;

function setUp(more = "", tokens?: Pick<Tokens, "verify">, keyed = true) {
  const table = new KeyTable(
    keysIn(parseDocument(`keys: [{ id: ${id}, name: a, hash: "${hash}"${more} }]`, { file: "f" })),
  );
  const events: string[] = [];
  const gatekeeper = new Gatekeeper({
    clock: new VirtualClock(),
    keys: keyed ? { table } : undefined,
    tokens,
    events: {
      admitted: (by, caller) => void events.push(`${by} ${caller.name}`),
      refused: (reason) => void events.push(reason),
    },
  });
  const ask = (pairs: readonly (readonly [string, string])[], path = "/v1/chat/completions", method = "POST") => {
    const headers = HeaderList.of(pairs);
    return { verdict: gatekeeper.authenticate({ method, path, headers }), headers };
  };
  return { ask, events };
}

describe("the door of a gateway with keys", () => {
  it("lets a key in, and takes it and the choice of the flow out of the request", () => {
    const { ask, events } = setUp();
    const { verdict, headers } = ask([...FLOW, ["authorization", `Bearer ${key}`], ["accept", "a"]]);
    expect(verdict).toMatchObject({ id, name: "a" });
    expect(headers.keys).toEqual(["accept"]);
    expect(events).toEqual(["key a"]);
  });

  it("leaves the choice of the flow to a key that may choose", () => {
    const { headers } = setUp(", choosesFlow: true").ask([...FLOW, ["api-key", key]]);
    expect(headers.keys).toEqual(FLOW.map(([name]) => name));
  });

  it.each([`/v1/chat/completions?api_key=${key}`, `/${key}/v1/chat/completions`])(
    "refuses a target that holds a key, though the headers have it, too: %s",
    (path) => {
      const { ask, events } = setUp();
      const { verdict } = ask([["x-api-key", key]], path);
      expect(verdict).toMatchObject({ reason: "key_invalid", status: 401 });
      expect((verdict as Rejection).detail).not.toContain(key);
      expect(events).toEqual(["key_invalid"]);
    },
  );

  it.each([
    ["key_missing", [] as const, 401],
    ["key_invalid", [["x-api-key", newKey(undefined).key]] as const, 401],
    ["key_invalid", [["authorization", "Basic YTpi"]] as const, 401],
    ["key_invalid", [["authorization", `Bearer ${TOKEN}`]] as const, 401],
  ])("refuses with %s", (reason, pairs, status) => {
    const { ask, events } = setUp();
    const { verdict } = ask(pairs);
    expect(verdict).toMatchObject({ reason, status });
    for (const [, value] of pairs) expect((verdict as Rejection).detail).not.toContain(value.slice(-10));
    expect(events).toEqual([reason]);
  });

  it.each([
    [", expires: 1970-01-01T00:00:00Z", "key_expired"],
    [", revoked: 1970-01-01T00:00:00Z", "key_revoked"],
  ])("tells the holder of the secret why it does not count: %s", (more, reason) => {
    expect(setUp(more).ask([["x-api-key", key]]).verdict).toMatchObject({ reason, status: 401 });
  });

  it("lets a question for the health of the gateway in without a key, and nothing like it", () => {
    const { ask } = setUp();
    for (const path of ["/health", "/health?full=1"]) expect(ask([], path, "GET").verdict).toBeUndefined();
    expect(ask([], "/health", "HEAD").verdict).toBeUndefined();
    for (const [path, method] of [
      ["/health", "POST"],
      ["/healthz", "GET"],
      ["/health/x", "GET"],
      ["/v1/models", "GET"],
    ])
      expect(ask([], path, method).verdict).toMatchObject({ reason: "key_missing" });
    // A key that is wrong is refused there, too.
    expect(ask([["api-key", "x"]], "/health", "GET").verdict).toMatchObject({ reason: "key_invalid" });
  });

  it("asks for a token's caller, with the address that the proxy knows, and takes the token out before the answer", async () => {
    const asked: string[] = [];
    const caller = { id: "i#u", name: "u", choosesFlow: false } as Caller;
    const tokens = {
      verify: (token: string, peer: string) => {
        asked.push(token, peer);
        return Promise.resolve(caller);
      },
    };
    const { ask, events } = setUp("", tokens, false);
    const sent = [["x-forwarded-for", "6.6.6.6, 10.0.0.9"], ["authorization", `Bearer ${TOKEN}`], ...FLOW] as const;
    const { verdict, headers } = ask(sent);
    expect(headers.keys).not.toContain("authorization");
    expect(await verdict).toBe(caller);
    expect(headers.keys).toEqual(["x-forwarded-for"]);
    expect(asked).toEqual([TOKEN, "10.0.0.9"]);
    expect(events).toEqual(["token u"]);
    // Without a keys file, a key is unknown.
    expect(ask([["api-key", key]]).verdict).toMatchObject({ reason: "key_invalid" });
  });

  it("passes on the refusal of a token", () => {
    const refusal = new Rejection("token_unverifiable", "no keys");
    const { ask, events } = setUp("", { verify: () => refusal });
    expect(ask([["authorization", `Bearer ${TOKEN}`]]).verdict).toBe(refusal);
    expect(events).toEqual(["token_unverifiable"]);
  });
});
