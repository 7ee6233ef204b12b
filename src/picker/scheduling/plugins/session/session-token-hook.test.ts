import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { endpointOf, instanceOf, requestOf } from "../../../../../test/support/scheduling/fakes.cases.ts";
import type { Endpoint } from "../../../../base/inference/endpoint.ts";
import { HeaderList } from "../../../../base/inference/headers.ts";
import type { InferenceRequest } from "../../../../base/inference/request.ts";
import type { RequestHook } from "../../../../base/plugin/kinds.ts";
import { decodeSessionToken, encodeSessionToken, sessionTokenHook } from "./session-token-hook.ts";

describe("session token", () => {
  it("S-46: is the standard base64 of the endpoint's id", () => {
    expect(encodeSessionToken("ns/pod-rank-0")).toBe("bnMvcG9kLXJhbmstMA==");
    expect(decodeSessionToken("bnMvcG9kLXJhbmstMA==")).toBe("ns/pod-rank-0");
  });

  it("comes back as it was, whatever the id", () => {
    const id = fc.string({ unit: "grapheme", maxLength: 80 });
    fc.assert(fc.property(id, (text) => decodeSessionToken(encodeSessionToken(text)) === text));
  });

  it("S-46: what is no base64, or far too long, is no token", () => {
    expect(decodeSessionToken("not base64!")).toBeUndefined();
    expect(decodeSessionToken("YWJj".repeat(1000))).toBeUndefined();
  });
});

const [A, B, C] = [endpointOf(0), endpointOf(1), endpointOf(2)];

/** Sends a request on its way: what each profile chose, the primary one first. */
function leave(hook: RequestHook, request: InferenceRequest, chosen: Readonly<Record<string, Endpoint>>): void {
  const profiles = new Map(Object.entries(chosen).map(([name, endpoint]) => [name, [endpoint]]));
  const [endpoints] = [...profiles.values()];
  const nothing = () => {};
  hook.preRequest?.({
    request,
    endpoints: endpoints!,
    profiles,
    setHeader: nothing,
    removeHeader: nothing,
    setMetadata: nothing,
  });
}

/** Headers of the answer that `served` gives. */
function answer(hook: RequestHook, request: InferenceRequest | undefined, served: Endpoint | undefined) {
  const headers: Record<string, string> = {};
  hook.responseReceived?.({
    request,
    endpoint: served,
    status: 200,
    headers: new HeaderList(),
    metadata: undefined,
    setHeader: (name, value) => {
      headers[name] = value;
    },
  });
  return headers;
}

describe("session-token-hook", () => {
  it("S-46: tells the endpoint that serves, and nothing while that is not known", () => {
    const hook = instanceOf(sessionTokenHook);
    expect(answer(hook, undefined, B)).toEqual({ "x-session-token": encodeSessionToken(B.id) });
    expect(answer(hook, requestOf("p"), undefined)).toEqual({});
  });

  it("S-46: tells what the profile chose that it is told, each request its own, and nothing where that did not run", () => {
    const hook = instanceOf(sessionTokenHook, { header: "X-Prefill-Token", profileName: "prefill" });
    const [one, two, three] = [requestOf("1"), requestOf("2"), requestOf("3")];
    leave(hook, one, { decode: A, prefill: B });
    leave(hook, two, { decode: A, prefill: C });
    leave(hook, three, { decode: A });
    expect(answer(hook, { ...one, body: new Uint8Array(0) }, A)).toEqual({
      "x-prefill-token": encodeSessionToken(B.id),
    });
    expect(answer(hook, two, B)).toEqual({ "x-prefill-token": encodeSessionToken(C.id) });
    expect(answer(hook, three, A)).toEqual({});
    expect(answer(hook, undefined, A)).toEqual({});
  });

  it("the primary profile may be told by its name: whoever serves in the end is told", () => {
    const hook = instanceOf(sessionTokenHook, { profileName: "decode" });
    const request = requestOf("p");
    leave(hook, request, { decode: A, prefill: B });
    expect(answer(hook, request, C)).toEqual({ "x-session-token": encodeSessionToken(C.id) });
  });
});
