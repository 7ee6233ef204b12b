import { describe, expect, it } from "vitest";
import { madeModel, madePool, targets } from "../../../test/support/resources/made.cases.ts";
import { endpointOf, requestOf } from "../../../test/support/scheduling/fakes.cases.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { HeaderList } from "../../base/inference/headers.ts";
import type { InferenceRequest } from "../../base/inference/request.ts";
import type { ResourceObject } from "../resources/objects.ts";
import { ResourceStore } from "../resources/resource-store.ts";
import { modelNotFound } from "./model-not-found.ts";

const SERVER = endpointOf(0, { id: "ns/pod-rank-0", hostPort: "[fd00::1]:8000" });

/** The hook with these objects, and what it reported. */
function hooked(...objects: ResourceObject[]) {
  const resources = new ResourceStore();
  resources.replace([madePool(), ...objects]);
  const clock = new VirtualClock();
  const reports: string[] = [];
  const report = ({ name }: { name: string }, text: string) => void reports.push(`${name}: ${text}`);
  const hook = modelNotFound({ resources, report, clock });
  const answer = (model: string, targetModel: string, more: { status?: number; endpoint?: typeof SERVER } = {}) => {
    const request: InferenceRequest = requestOf("", { model, targetModel });
    const rest = { headers: new HeaderList(), metadata: undefined, setHeader() {} };
    hook.responseReceived?.({ request, endpoint: SERVER, status: 404, ...more, ...rest });
  };
  return { answer, reports, clock, hook };
}

describe("a target model that its model server does not know", () => {
  it("is reported on its InferenceModel with the server and the target", () => {
    const { answer, reports } = hooked(madeModel("chat", "chat", { targets: targets("chat-v1:1", "chat-v2:1") }));
    answer("chat", "chat-v2");
    expect(reports).toEqual([
      'chat: model server ns/pod-rank-0 ([fd00::1]:8000) answered 404 to a request for target model "chat-v2": the server may not have loaded the model',
    ]);
  });

  it("is its own name where it lists no targets", () => {
    const { answer, reports } = hooked(madeModel("chat", "chat-7b"));
    answer("chat-7b", "chat-7b");
    expect(reports).toEqual([expect.stringContaining('target model "chat-7b"')]);
  });

  it("is none for other answers, unknown models, and targets that others chose", () => {
    const { answer, reports, hook } = hooked(madeModel("chat", "chat", { targets: targets("chat-v1") }));
    for (const status of [200, 400, 403, 405, 500]) answer("chat", "chat-v1", { status });
    answer("other", "other");
    answer("chat", "chosen-by-a-rewrite");
    hook.responseReceived?.({
      ...{ request: undefined, endpoint: SERVER, status: 404 },
      ...{ headers: new HeaderList(), metadata: undefined, setHeader() {} },
    });
    expect(reports).toEqual([]);
  });

  it("is reported once a minute, each target for itself", () => {
    const { answer, reports, clock } = hooked(madeModel("chat", "chat", { targets: targets("a:1", "b:1") }));
    for (let second = 0; second < 59; second++) {
      answer("chat", "a");
      if (second === 30) answer("chat", "b");
      clock.advance(1000);
    }
    expect(reports).toHaveLength(2);
    clock.advance(1000);
    answer("chat", "a");
    answer("chat", "b");
    expect(reports).toHaveLength(3);
  });

  it("leaves those beyond 1,000 at a time for later", () => {
    const models = Array.from({ length: 1001 }, (_, at) => madeModel(`m${at}`, `m${at}`));
    const { answer, reports, clock } = hooked(...models);
    for (const { modelName } of models) answer(modelName, modelName);
    expect(reports).toHaveLength(1000);
    clock.advance(60_000);
    answer("m1000", "m1000");
    answer("m0", "m0");
    expect(reports.slice(1000)).toEqual([expect.stringContaining("m1000"), expect.stringContaining("m0")]);
  });
});
