/** Orders to cancel something, as the page and others send them to the admin port. */
import { ask } from "./client.ts";

/** Requests that other pages can make a browser send, each with headers and the status of its refusal. */
export const FOREIGN_ORDERS: readonly (readonly [what: string, headers: Record<string, string>, status: number])[] = [
  ["a form of another page", { "content-type": "text/plain" }, 415],
  [
    "a form of another page that opens",
    { "content-type": "text/plain", "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate" },
    415,
  ],
  ["another origin", { origin: "http://evil.example" }, 403],
  ["another port of this machine", { origin: "http://127.0.0.1:1" }, 403],
  ["a page without an origin", { origin: "null" }, 403],
  ["another site", { "sec-fetch-site": "cross-site", "sec-fetch-mode": "cors" }, 403],
  ["a foreign name of this machine", { host: "evil.example" }, 403],
];

/** Bodies without an ID, each with the status of its refusal. @param maxBody bytes of the longest body */
export const wrongBodies = (maxBody: number): readonly (readonly [body: string, status: number])[] => [
  ["{", 400],
  ["null", 400],
  ['{"id":""}', 400],
  ['{"id":7}', 400],
  [`{"id":"${"x".repeat(maxBody)}"}`, 413],
];

/** Sends an order. @returns the status and the body of the answer */
export async function sendOrder(
  address: string,
  body: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<[number, string]> {
  const all = { "content-type": "application/json", "content-length": `${body.length}`, ...headers };
  const { status, text } = await ask(address, { method: "POST", body, headers: all });
  return [status, text];
}
