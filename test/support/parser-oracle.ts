import { deepStrictEqual, ok, strictEqual } from "node:assert/strict";
import { Rejection } from "../../src/base/inference/outcomes.ts";
import type { BodyParser } from "../../src/base/plugin/kinds.ts";
import { spliceModel } from "../../src/picker/apis/model-name.ts";

/** What a document is to `JSON.parse`: undefined = none. */
export function decodeJson(bytes: Uint8Array): { readonly value: unknown } | undefined {
  try {
    return { value: JSON.parse(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString()) };
  } catch {
    return undefined;
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/**
 * Throws unless what `parser` says of `body` agrees with what `JSON.parse` says: refusals have their reason, members
 * their values, ranges lie in the body, and a spliced model name changes that name alone.
 *
 * @returns in a few words what the parser said
 */
export function checkJsonParser(parser: BodyParser, body: Uint8Array): string {
  const result = parser.parse(body, "/path");
  const document = decodeJson(body);
  if (result instanceof Rejection) {
    strictEqual(result.status, 400);
    ok(result.detail.length <= 1024 && !/[\r\n]/.test(result.detail), "a refusal is one bounded line");
    const readable = document !== undefined && (isObject(document.value) || document.value === null);
    const depth = result.detail.includes("exceeded max depth");
    strictEqual(/^error unmarshaling request (bodyMap|body): /.test(result.detail), !readable || depth, result.detail);
    if (result.reason === "model_missing") {
      const model = (document?.value as { model?: unknown } | undefined)?.model;
      ok(model !== undefined && model !== null && typeof model !== "string", "a model that is no string");
    }
    return result.detail.replace(/'.*'/, "").slice(0, 60);
  }
  for (const { start, end } of result.prompts.flat()) {
    ok(start >= 0 && start <= end && end <= body.length, `range ${start}-${end} of ${body.length} bytes`);
  }
  ok(Number.isNaN(result.maxTokens) || result.maxTokens >= 0);
  if (result.answerFormat === "opaque") {
    strictEqual(result.modelInsertAt, -1);
    strictEqual(result.modelRange, undefined);
    return "opaque";
  }
  const object = document?.value;
  ok(isObject(object), "what is accepted is an object");
  strictEqual(result.streaming, object["stream"] === true);
  const salt = result.answerFormat === "sglang" ? object["extra_key"] : object["cache_salt"];
  strictEqual(result.cacheSalt, typeof salt === "string" ? salt : "");
  if (result.modelInsertAt < 0) {
    strictEqual(result.model, "");
    return "accepted, no model";
  }
  const model = Object.hasOwn(object, "model") ? object["model"] : undefined;
  strictEqual(result.model, typeof model === "string" ? model : "");
  strictEqual(result.modelRange === undefined, model === undefined);
  const name = 'other "model" \u00e9\u0001';
  deepStrictEqual(JSON.parse(Buffer.concat(spliceModel(body, result, name)).toString()), { ...object, model: name });
  return `accepted, ${result.prompts.length} prompts, ${result.streaming}, ${result.cacheSalt === ""}`;
}
