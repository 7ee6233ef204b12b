import { describe, expect, it } from "vitest";
import { madeClaim, madeQueues } from "../../../../test/support/dispatch/merge/made.cases.ts";
import { SeededRandom } from "../../../base/clock/random.ts";
import { parseDocument } from "../../../base/document/parse.ts";
import { mergePolicy } from "./policy-file.ts";

const FAIRNESS = "x-llm-d-inference-fairness-id";
const random = new SeededRandom(1);
const queues = madeQueues(1);
const read = (text: string) => mergePolicy(parseDocument(text, { file: "m.json" }), random)(queues, 4);

/** What a policy sets on a message of alice in tier async, by header. */
function stamped(text: string | undefined, metadata: Readonly<Record<string, string>> = { userid: "alice" }) {
  const policy = text === undefined ? mergePolicy(undefined, random)(queues, 4) : read(text);
  const headers = policy.stamp(madeClaim(queues[0]!, "1", metadata), { tier: "async", speed: "interactive" });
  return Object.fromEntries(headers.map(({ name, value }) => [name, value]));
}

describe("mergePolicy", () => {
  it("is random-robin without a file, and stamps by default (A-70)", () => {
    expect(stamped(undefined)).toEqual({ [FAIRNESS]: "alice" });
    expect(stamped('{"type":"random-robin"}')).toEqual({ [FAIRNESS]: "alice" });
    expect(stamped('{"type":"random-robin","parameters":null}')).toEqual({ [FAIRNESS]: "alice" });
  });

  it("takes every parameter", () => {
    expect(stamped('{"type":"tier-priority"}')).toEqual({ [FAIRNESS]: "alice", "x-gateway-priority": "4" });
    const parameters = {
      ...{ fairness_header: "X-Who", fairness_attribute: "team", priority_header: "X-Lane", tier_label: "speed" },
    };
    expect(stamped(JSON.stringify({ type: "tier-priority", parameters }), { team: "red", userid: "alice" })).toEqual({
      "X-Who": "red",
      "X-Lane": "3",
    });
  });

  it("does not stamp with an empty fairness_header (A-70)", () => {
    expect(stamped('{"type":"random-robin","parameters":{"fairness_header":""}}')).toEqual({});
    expect(stamped('{"type":"tier-priority","parameters":{"fairness_header":""}}')).toEqual({
      "x-gateway-priority": "4",
    });
  });

  const refused: readonly (readonly [text: string, message: RegExp])[] = [
    ['{"type":"random-robin","params":{}}', /unknown key `params`/],
    ['{"type":"random-robin","parameter":{}}', /unknown key `parameter`; did you mean `parameters`\?/],
    ['{"type":"random-robbin"}', /m\.json:1:2: type: .*did you mean `random-robin`\?/],
    ["{}", /type: is missing/],
    ['{"type":"tier-priority","parameters":{"tierlabel":"x"}}', /did you mean `tier_label`\?/],
    ['{"type":"random-robin","parameters":{"fairness_header":"x who"}}', /fairness_header: is not a legal header name/],
    ['{"type":"random-robin","parameters":{"fairness_header":"x:y"}}', /fairness_header: is not a legal header name/],
    ['{"type":"tier-priority","parameters":{"priority_header":""}}', /priority_header: is not a legal header name/],
    ['{"type":"tier-priority","parameters":{"priority_header":"Content-Length"}}', /that HTTP itself uses/],
    [`{"type":"tier-priority","parameters":{"priority_header":"${FAIRNESS.toUpperCase()}"}}`, /the same header/],
    ['{"type":"random-robin","parameters":[]}', /parameters: expected a mapping, got a list/],
  ];
  it.each(refused)("refuses %s at start (A-70, A-72)", (text, message) => {
    expect(() => read(text)).toThrow(expect.objectContaining({ code: "DOCUMENT_INVALID" }));
    expect(() => read(text)).toThrow(message);
  });
});
