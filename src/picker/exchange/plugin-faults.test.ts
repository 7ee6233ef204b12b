import { describe, expect, it } from "vitest";
import { TestCore } from "../../../test/support/core.ts";
import { HEADERS, NO_WIRE } from "../../../test/support/exchange/fakes.cases.ts";
import { requestOf } from "../../../test/support/scheduling/fakes.cases.ts";
import { chatBody, SessionHarness } from "../../../test/support/session-harness.ts";
import { messageOf } from "../../base/inference/errors.ts";
import { HeaderList } from "../../base/inference/headers.ts";
import type { InferenceRequest } from "../../base/inference/request.ts";
import type { PreRequestContext, RequestHeaderProcessor, RequestHook } from "../../base/plugin/kinds.ts";
import { processHeaders } from "./decide.ts";

/** Plugins as people write them whose editor checks no types. */
const late = () => Promise.reject(new Error("too late"));

function processed(process: unknown): { request: InferenceRequest; refusal: unknown; failed: string[] } {
  const failed: string[] = [];
  const plugin = { process } as RequestHeaderProcessor;
  const processors = [{ name: "mine", type: "mine", plugin }];
  return { ...processHeaders(processors, requestOf("p"), false, (_, error) => failed.push(messageOf(error))), failed };
}

describe("a request-header processor", () => {
  it.each([5, null, undefined, {}, ["a"], "", true])(
    "that calls the flow %j is reported, and changes nothing",
    (id) => {
      const { request, failed } = processed(({ setFairnessId }: { setFairnessId(id: unknown): void }) => {
        setFairnessId(id);
      });
      expect(request.fairnessId).toBe("default-flow");
      expect(failed).toEqual(id === "" ? [] : [expect.stringContaining("fairness ID")]);
    },
  );

  it.each([
    ["a promise", late, "a decision does not wait"],
    ["a text", () => "no", "or a Rejection to refuse the request"],
    ["true", () => true, "or a Rejection to refuse the request"],
  ])("that answers with %s has not refused the request, and is reported", (_, process, message) => {
    const { refusal, failed } = processed(process);
    expect(refusal).toBeUndefined();
    expect(failed).toEqual([expect.stringContaining(message)]);
  });
});

/** The reply in which a hook says what it does, and what was reported of it. */
function hooked(preRequest: (context: Record<keyof PreRequestContext, (...given: unknown[]) => void>) => void) {
  const core = new TestCore({ hooks: [{ name: "mine", plugin: { preRequest } as unknown as RequestHook }] });
  const harness = new SessionHarness(core);
  harness.envoy.requestHeaders([[":path", "/v1/chat/completions"]], false);
  harness.envoy.requestBody(chatBody(), true);
  return { core, harness, reply: harness.take()[0] };
}

describe("a request hook", () => {
  it.each([5, undefined, null, {}, ["a"], Symbol("odd")])(
    "that sets a header to %o is reported, and the request goes on",
    (value) => {
      const { core, harness, reply } = hooked(({ setHeader }) => setHeader("x-mine", value));
      expect(reply?.requestHeaders).toBeDefined();
      expect(harness.errors).toEqual([]);
      expect(core.errors.map(messageOf)).toEqual([expect.stringContaining("x-mine")]);
    },
  );

  it.each([undefined, null, {}, ["a"], Symbol("odd"), Number.NaN, 5n])(
    "that sets metadata to %o is reported, and the request goes on",
    (value) => {
      const { core, harness, reply } = hooked(({ setMetadata }) => setMetadata("mine", "what", value));
      expect(reply?.requestHeaders).toBeDefined();
      expect(harness.errors).toEqual([]);
      expect(core.errors.map(messageOf)).toEqual([expect.stringContaining("mine/what")]);
    },
  );
});

describe("a parser", () => {
  it("that is asynchronous is a failure of ours, and the process goes on", () => {
    const parser = { name: "late", suffixes: ["/completions"], parse: late as never };
    const core = new TestCore({ parsers: [{ parsers: [parser] }] });
    const exchange = core.openExchange(NO_WIRE);
    exchange.requestHeaders(HEADERS, false);
    expect(exchange.requestBody(Buffer.from("{}"), true)).toMatchObject({
      status: 500,
      detail: expect.stringContaining("a decision does not wait"),
    });
    expect(core.errors).toHaveLength(1);
  });
});

describe("a saturation detector", () => {
  it.each([
    late,
    () => {
      throw new Error("broken");
    },
  ])("that fails is reported, and the request is admitted: %o", (saturation) => {
    const core = new TestCore({ objectives: ["low=-1"], saturation: saturation as unknown as () => number });
    const headers = HeaderList.of([["x-gateway-inference-objective", "low"]]);
    const understood = core.decider.understand("id", headers, Buffer.from('{"model":"m","prompt":"p"}'));
    expect(core.decider.decide(core.decider.process(understood as InferenceRequest), undefined)).toMatchObject({
      result: { endpoints: [{}, {}, {}] },
    });
    expect(core.errors).toHaveLength(1);
  });
});
