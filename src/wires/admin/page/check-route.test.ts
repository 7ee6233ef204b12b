import { Hono } from "hono";
import { expect, it } from "vitest";
import { VirtualClock } from "../../../base/clock/virtual.ts";
import { CHECK_PATH, checkRoute } from "./check-route.ts";

function setUp() {
  const clock = new VirtualClock();
  const checked: string[] = [];
  const app = new Hono();
  const check = (text: string) => {
    checked.push(text);
    return { picker: null, problems: [{ line: 1, column: 2, text: "wrong" }], warnings: [] };
  };
  checkRoute(app, check, clock);
  const post = async (body: string, headers: Readonly<Record<string, string>> = {}) => {
    const answer = await app.request(`http://127.0.0.1:9${CHECK_PATH}`, {
      method: "POST",
      headers: {
        ...{ "content-type": "application/json", "content-length": String(Buffer.byteLength(body)) },
        ...{ host: "127.0.0.1:9", ...headers },
      },
      body,
    });
    return [answer.status, (await answer.json()) as { readonly error?: string }] as const;
  };
  return { clock, checked, post };
}

it("answers what the check found", async () => {
  const { checked, post } = setUp();
  const [status, answer] = await post('{"text":"kind: x"}', { origin: "http://127.0.0.1:9" });
  expect([status, answer]).toEqual([
    200,
    { picker: null, problems: [{ line: 1, column: 2, text: "wrong" }], warnings: [] },
  ]);
  expect(checked).toEqual(["kind: x"]);
});

it("checks at most four texts in a second", async () => {
  const { clock, checked, post } = setUp();
  const statuses = [];
  for (let at = 0; at < 10; at++) {
    statuses.push((await post('{"text":""}'))[0]);
    await clock.advance(100);
  }
  expect(statuses).toEqual([200, 429, 429, 200, 429, 429, 200, 429, 429, 200]);
  expect(checked).toHaveLength(4);
});

it("refuses pages of other sites, long bodies and bodies without a text, before it checks anything", async () => {
  const { checked, post } = setUp();
  const long = JSON.stringify({ text: "x".repeat(64 * 1024) });
  const refused = [
    await post('{"text":""}', { "content-type": "text/plain" }),
    await post('{"text":""}', { origin: "http://other.example" }),
    await post('{"text":""}', { origin: "null" }),
    await post(long),
    await post("{"),
    await post("null"),
    await post('{"text":1}'),
  ];
  expect(refused.map(([status]) => status)).toEqual([415, 403, 403, 413, 400, 400, 400]);
  for (const [, { error }] of refused) expect(error).toBeTypeOf("string");
  expect(checked).toEqual([]);
});
