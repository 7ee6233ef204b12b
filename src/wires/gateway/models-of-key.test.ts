import { expect, it } from "vitest";
import type { Caller } from "../../base/inference/caller.ts";
import { pathsOfOtherModels } from "./models-of-key.ts";

function callerOf(models: readonly string[] | undefined): Caller {
  return {
    ...{ id: "k", name: "k", models: models && new Set(models), choosesFlow: false },
    ...{ objective: undefined, priority: undefined, fairnessId: undefined },
  };
}

const ask = (path: string, method = "GET", caller: Caller | undefined = callerOf(["mine", "org/name"])) =>
  pathsOfOtherModels({ method, path }, { requestId: "r1", answerId: ({ reason }) => reason }, caller);

const NAMED = [
  "/v1/models/NAME",
  "/v1/models/NAME/",
  "/v1/models/NAME?x=/v1/models/mine",
  "/v2/models/NAME",
  "/v2/models/NAME/ready",
  "/v2/models/NAME/config",
  "/v2/models/NAME/infer",
  "/v2/models/NAME/versions/1",
  "/v2/models/NAME/versions/1/ready",
  "/v2/repository/models/NAME/load",
];
const METHODS = ["GET", "HEAD", "OPTIONS", "POST", "DELETE"];

it("a caller with a list of models gets one and the same 404 for every other model that a path names, by each method", () => {
  for (const method of METHODS)
    for (const path of NAMED) {
      const [secret, unknown] = ["secret", "absent"].map((name) => ask(path.replace("NAME", name), method)!);
      expect([path, secret?.status, secret?.headers]).toEqual([path, 404, unknown?.headers]);
      expect(secret!.headers).toContain("model_not_allowed");
      const message = (answer = secret!): string => JSON.parse(answer.body.toString()).error.message;
      expect(message()).toBe("this key may not use the model `secret`. The models are `mine`, `org/name`.");
      expect(message().replace("secret", "absent")).toBe(message(unknown));
    }
});

it("the models of the caller, and paths that tell of no model, go on", () => {
  for (const method of METHODS) {
    for (const path of NAMED) expect(ask(path.replace("NAME", "mine"), method), path).toBeUndefined();
    for (const path of ["/v1/models", "/v1/models/", "/v1/models?x", "/version", "/health", "/v2", "/v2/health/ready"])
      expect(ask(path, method), path).toBeUndefined();
    for (const path of ["/v1/models/org/name", "/v1/models/org%2Fname", "/v1/models/%6dine", "/v2/models/m%69ne"])
      expect(ask(path, method), path).toBeUndefined();
  }
  expect(ask("/v1/chat/completions", "POST")).toBeUndefined();
});

it("a path that tells of the model of any server, without naming it, is for callers with every model", () => {
  for (const path of ["/get_model_info", "/model_info", "/model_info/", "/model_info?x"])
    expect([path, ask(path)?.status]).toEqual([path, 404]);
});

it("no escape and no further slash hides the name; a path that readers read in several ways names no model of a caller", () => {
  for (const path of [
    "/v1/models/%73ecret",
    "/v2/%6dodels/secret",
    "/%76%31/models/secret",
    "/v2//models/secret",
    "/a;b",
  ])
    expect([path, ask(path)?.status]).toEqual([path, 404]);
});

it("callers with every model, and those of a gateway without keys, may ask for all", () => {
  for (const caller of [callerOf(undefined), null as unknown as undefined])
    for (const path of [...NAMED, "/model_info", "/a;b"]) expect(ask(path, "GET", caller), path).toBeUndefined();
});
