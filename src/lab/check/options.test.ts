import { describe, expect, it } from "vitest";
import { messageOf } from "../../base/inference/errors.ts";
import { VLLM } from "../../pool/endpoints/dialects/engines.ts";
import { engineNamed, parseHeader, parseMetricsPath, parseTarget, withNames } from "./options.ts";

/** The message of what is thrown, always a FLAG_VALUE. */
function refusal(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    expect(error).toMatchObject({ code: "FLAG_VALUE" });
    return messageOf(error);
  }
  throw new Error("accepted");
}

describe("parseTarget", () => {
  it.each([
    ["http://10.0.0.7:8000", "http://10.0.0.7:8000"],
    ["10.0.0.7:8000", "http://10.0.0.7:8000"],
    ["localhost:8000/v1", "http://localhost:8000"],
    ["https://[fd00::1]:8443/v1/", "https://[fd00::1]:8443"],
    ["HTTP://Host:80/", "http://host"],
  ])("%s is %s", (text, origin) => expect(parseTarget(text)).toBe(origin));

  it.each([
    ["ftp://host", "is not the address of a server"],
    ["", "is not the address of a server"],
    ["http://host:99999", "is not the address of a server"],
    ["http://host/v1/chat/completions", "give the address alone, http://host"],
    ["http://host/?x=1", "give the address alone"],
  ])("refuses %j", (text, problem) => expect(refusal(() => parseTarget(text))).toContain(problem));

  it.each([
    "http://me:hunter2@host:8000",
    "http://me:hunter2@host:8000/x",
    "http://me:hunter2@:1:2",
    "ftp://a:hunter2@b",
  ])("never repeats a password: %s", (text) => expect(refusal(() => parseTarget(text))).not.toContain("hunter2"));
});

describe("parseHeader", () => {
  it("takes a name and a value", () => {
    expect(parseHeader("Authorization: Bearer a:b")).toEqual(["Authorization", "Bearer a:b"]);
    expect(parseHeader("x-empty:")).toEqual(["x-empty", ""]);
  });

  it.each([
    "hunter2",
    ": hunter2",
    "a b: hunter2",
    "x: hunter2\r\ny: z",
    "x: hunter2\u0000",
    "x: hunter2 \u0416",
    "Content-Length: hunter2",
    "connection: hunter2",
  ])("refuses %j without repeating its value", (text) =>
    expect(refusal(() => parseHeader(text))).not.toContain("hunter2"),
  );
});

describe("names of metrics and engines", () => {
  it("lists the known engines", () => {
    expect(engineNamed("sglang").queued).toBe("sglang:num_queue_reqs");
    expect(refusal(() => engineNamed("vlm"))).toContain("known are vllm, sglang");
  });

  it("puts given names in the place of the engine's, and drops the former name of the one replaced", () => {
    expect(withNames(VLLM, { kvUsage: "kv" })).toMatchObject({ queued: VLLM.queued, kvUsage: "kv" });
    expect(withNames(VLLM, { kvUsage: "kv" }).kvUsageBefore).toBeUndefined();
    expect(withNames(VLLM, {}).kvUsageBefore).toBe(VLLM.kvUsageBefore);
    expect(refusal(() => withNames(VLLM, { queued: "a b" }))).toContain("not a valid metric specification");
  });

  it("takes a path for the metrics page", () => {
    expect(parseMetricsPath("/v2/metrics?x=1")).toBe("/v2/metrics?x=1");
    for (const text of ["metrics", "//evil", "/a b", "/\r\n", ""])
      expect(refusal(() => parseMetricsPath(text))).toContain("it must begin with one slash");
  });
});
