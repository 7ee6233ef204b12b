import { expect, it } from "vitest";
import { TestCore } from "../../../test/support/core.ts";
import { NO_WIRE } from "../../../test/support/exchange/fakes.cases.ts";
import { chatBody } from "../../../test/support/session-harness.ts";
import type { Caller } from "../../base/inference/caller.ts";
import { HeaderList } from "../../base/inference/headers.ts";
import { RequestLog } from "./request-log.ts";

const MODEL = JSON.parse(chatBody()).model as string;
const CALLER: Caller = {
  ...{ id: "k1", name: "team-a", models: new Set([MODEL]), choosesFlow: false },
  ...{ objective: undefined, priority: 3, fairnessId: undefined },
};

function ask(caller: Caller | undefined, body = chatBody()) {
  const core = new TestCore();
  const lines: string[] = [];
  core.requestLog = new RequestLog(core.clock, 1, (line) => lines.push(line));
  const exchange = core.openExchange({ ...NO_WIRE, caller });
  exchange.requestHeaders(
    HeaderList.of([
      [":method", "POST"],
      [":path", "/v1/chat/completions"],
    ]),
    false,
  );
  const decision = exchange.requestBody(Buffer.from(body), true);
  exchange.end("client-gone");
  return { decision, record: core.scheduler.records.newest, line: JSON.parse(lines[0]!) };
}

it("a request has the priority and the flow of its caller, and its line has the name of the key", () => {
  const { decision, line } = ask(CALLER);
  expect(decision).toMatchObject({ kind: "routed" });
  expect(line).toMatchObject({ key: "team-a", priority: 3, fairnessId: "team-a", model: MODEL });
});

it("a model that the caller may not use is refused before any decision, and the line says whose request it was", () => {
  const { decision, line, record } = ask({ ...CALLER, models: new Set(["other"]) });
  expect(decision).toMatchObject({ reason: "model_not_allowed", status: 404 });
  expect((decision as { detail: string }).detail).toBe(
    `this key may not use the model \`${MODEL}\`. The models are \`other\`.`,
  );
  expect(record).toBeUndefined();
  expect(line).toMatchObject({ key: "team-a", status: 404, reason: "model_not_allowed" });
});

it("without a caller, nothing is different: no name in the line, and the usual flow", () => {
  const { line } = ask(undefined);
  expect(line).toMatchObject({ priority: 0, fairnessId: "default-flow" });
  expect(line).not.toHaveProperty("key");
});
