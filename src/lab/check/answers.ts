import { oneLine } from "../../base/inference/errors.ts";
import type { NoAnswer, ProbeAnswer } from "./http-probe.ts";
import { Finding, type ObligationName, skipped, type Verdict } from "./verdict.ts";

const MAX_EXCERPT = 160;

/** The start of an answer: the message of an OpenAI-shaped error, else the first characters of the body. */
export function excerpt({ body, mediaType }: ProbeAnswer): string {
  if (body.length === 0) return "an empty body";
  const json = parseJson(body);
  const message = at(json, "error", "message") ?? at(json, "message") ?? at(json, "detail");
  const text = typeof message === "string" ? message : body.toString("utf8", 0, MAX_EXCERPT * 4);
  const flat = oneLine(text).trim();
  const short = flat.length <= MAX_EXCERPT ? flat : `${flat.slice(0, MAX_EXCERPT - 3)}...`;
  return /html/.test(mediaType) ? `a page of HTML: ${short}` : short;
}

/**
 * The verdict on a request without an answer, or with a status other than 200; undefined for status 200.
 * @param request as shown in the verdict, such as `POST /v1/completions`
 */
export function refusal(
  obligation: ObligationName,
  request: string,
  answer: ProbeAnswer | NoAnswer,
): Verdict | undefined {
  const finding = new Finding(obligation);
  if (answer.kind === "none") {
    if (answer.reason === "untried") return skipped(obligation, answer.detail, { inconclusive: true });
    finding.broken(`${request}: ${answer.detail}`, NO_ANSWER[answer.reason]);
    return finding.verdict("");
  }
  const { status } = answer;
  if (status === 200) return undefined;
  const seen = `${request} answered ${status}: ${excerpt(answer)}`;
  if (status === 401 || status === 403)
    return skipped(obligation, seen, {
      inconclusive: true,
      remedy: "give the server's credentials with --header 'Authorization: Bearer ...'",
    });
  finding.broken(seen, remedyFor(status));
  return finding.verdict("");
}

const NO_ANSWER = {
  connect: "find out why the server no longer accepts connections",
  timeout: "find out what the server waits for, or give it more time with --timeout",
  broken: "read the log of the server: the server cuts the answer short or does not speak HTTP",
} as const;

function remedyFor(status: number): string {
  if (status === 404 || status === 405) return "serve this path, or name a model of the server with --model";
  if (status === 429 || status === 503) return "try again when the server is idle and has loaded its model";
  if (status < 400) return "answer 200 at this path itself";
  if (status < 500) return "accept the request as the OpenAI API defines it";
  return "read the log of the server";
}

/** @param where the place of the usage, for the sentence, @param remedy for an answer without usage */
export function checkUsage(obligation: ObligationName, usage: unknown, where: string, remedy: string): Verdict {
  const finding = new Finding(obligation);
  if (usage === undefined || usage === null) {
    finding.broken(`no usage in ${where}`, remedy);
    return finding.verdict("");
  }
  const [prompt, completion, total] = ["prompt_tokens", "completion_tokens", "total_tokens"].map((name) => {
    const value = at(usage, name);
    if (isCount(value)) return value;
    finding.broken(`usage.${name} is ${JSON.stringify(value) ?? "missing"}`, "report token counts as whole numbers");
    return Number.NaN;
  }) as [number, number, number];
  if (finding.flawless && prompt + completion !== total)
    finding.doubtful(
      `${prompt} prompt and ${completion} completion tokens do not add up to ${total}`,
      "report the sum as total_tokens",
    );
  return finding.verdict(`${prompt} prompt and ${completion} completion tokens`);
}

/** Prompt tokens found in the prefix cache; undefined when the answer does not report them. */
export function cachedTokens(usage: unknown): number | undefined {
  const cached =
    at(usage, "prompt_tokens_details", "cached_tokens") ?? at(usage, "prompt_token_details", "cached_tokens");
  return isCount(cached) ? cached : undefined;
}

/** The JSON of a body, or undefined when the body is not JSON; `null` is JSON. */
export function parseJson(body: Uint8Array | string): unknown {
  try {
    return JSON.parse(
      typeof body === "string" ? body : Buffer.from(body.buffer, body.byteOffset, body.length).toString(),
    );
  } catch {
    return undefined;
  }
}

/** The value at a path of member names and indices; undefined when the path does not exist. */
export function at(value: unknown, ...path: readonly (string | number)[]): unknown {
  let here = value;
  for (const step of path) {
    if (typeof here !== "object" || here === null || !Object.hasOwn(here, step)) return undefined;
    here = (here as Record<string | number, unknown>)[step];
  }
  return here;
}

/** A whole number from 0 up. */
function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
}
