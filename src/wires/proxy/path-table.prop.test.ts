import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { pathTable } from "../../../test/support/proxy-harness.ts";
import { originForm } from "./request-head.ts";

const PIECES = [
  ...["/metrics", "/load_lora_adapter", "/v1", "/v2", "/models", "/v1/models", "/completions", "/v1/chat/completions"],
  ...[
    "/tokenize",
    "/generate",
    "/adapters",
    "/flush_cache",
    "/inference/v1/generate",
    "/METRICS",
    "/Models",
    "x",
    "a.b",
  ],
  ...[
    "/",
    "//",
    ".",
    "..",
    "/..",
    "\\",
    ";",
    "?",
    "#",
    "*",
    "%",
    " ",
    "\0",
    "\r",
    "\u00e9",
    "|",
    "http://gw",
    "http://",
  ],
  ...["%2e", "%2E%2e", "%252e", "%2f", "%252F", "%5c", "%3b", "%3f", "%23", "%25", "%00", "%0a", "%c0%ae", "%zz"],
  ...["%6d", "%6Detrics", "%73", "%6f", "%2", "%2565", "/%76%31", "%61"],
];

const odd = (maxLength: number) => fc.array(fc.constantFrom(...PIECES), { maxLength }).map((pieces) => pieces.join(""));
const good = fc.constantFrom(
  "/v1/completions",
  "/v1/models/a",
  "/tokenize",
  "/generate",
  "/v2/models/m/infer",
  "/v1/models",
);
const TARGETS = fc.oneof(
  odd(7),
  fc.tuple(odd(2), good, odd(3)).map((parts) => parts.join("")),
);

/** Every path that some reader makes of `path`: all readings of all readings. */
function readings(path: string): ReadonlySet<string> {
  const found = new Set<string>();
  const open = [path];
  for (let next = open.pop(); next !== undefined && found.size < 5000; next = open.pop()) {
    if (found.has(next)) continue;
    found.add(next);
    const decoded = next.replace(/%[0-9a-f]{2}/gi, (code) => String.fromCharCode(Number.parseInt(code.slice(1), 16)));
    const cut = /^[^?#;\0\r\n]*/.exec(next)![0];
    const segments: string[] = [];
    for (const segment of next.split("/").slice(1)) {
      if (segment === "..") segments.pop();
      else if (segment !== "." && segment !== "") segments.push(segment);
    }
    open.push(decoded, cut, next.replace(/;[^/]*/g, ""), next.replaceAll("\\", "/"), `/${segments.join("/")}`);
    open.push(
      next.replace(/^\/\/[^/]*/, ""),
      next.replace(/[\0-\x20\x7f-\xff]/g, ""),
      next.replaceAll("\xc0\xae", "."),
    );
  }
  return found;
}

const READS = /^\/(v1\/models(\/.+)?|version|health(_generate)?|ping|(get_)?model_info|v2(\/health\/(live|ready))?)$/;
const READS_TRITON = /^\/v2\/models\/(?!stats$)[^/]+(\/versions\/[^/]+)?(\/ready)?$/;
const COMPUTES =
  /\/((chat\/)?completions(\/render)?|responses|conversations|embeddings|images\/generations|messages(\/count_tokens)?)$/;
const COMPUTES_WHOLE =
  /^\/((v1\/)?(de)?tokenize|generate|encode|classify|pooling|(v[12]\/)?rerank|(v1\/)?score|generative_scoring|v2\/embed)$/;
const COMPUTES_MORE =
  /^(.*\/inference\/v1\/generate|\/v1\/(chat\/completions\/batch|decisions|audio\/(transcriptions|translations)))$/;
const COMPUTES_TRITON = /^\/v2\/models\/[^/]+(\/versions\/[^/]+)?\/(generate|generate_stream|infer)$/;

/** The slow classifier: written from the documentation, without the rows of the table. */
function mayPass(method: string, reading: string): boolean {
  const path = reading.length > 1 ? reading.replace(/\/$/, "") : reading;
  const reads = [READS, READS_TRITON].some((pattern) => pattern.test(path));
  const computes = [COMPUTES, COMPUTES_WHOLE, COMPUTES_MORE, COMPUTES_TRITON].some((pattern) => pattern.test(path));
  if (method === "GET" || method === "HEAD") return reads;
  if (method === "POST") return computes;
  return method === "OPTIONS" && (reads || computes);
}

describe("whatever the gateway forwards", () => {
  it("is of a kind that passes, however a server reads it", () => {
    const table = pathTable();
    let passed = 0;
    let refused = 0;
    fc.assert(
      fc.property(
        fc.constantFrom("GET", "GET", "POST", "POST", "HEAD", "OPTIONS", "PUT", "DELETE", "TRACE"),
        TARGETS,
        (method, target) => {
          const path = originForm(target, "gw");
          if (typeof path !== "string" || table.judge(method, path) !== undefined) {
            refused++;
            return;
          }
          passed++;
          const [judged = ""] = path.split("?", 1);
          for (const reading of readings(judged)) expect([reading, mayPass(method, reading)]).toEqual([reading, true]);
        },
      ),
      { numRuns: 10_000 },
    );
    expect(passed).toBeGreaterThan(200);
    expect(refused).toBeGreaterThan(2000);
  });

  it("is judged in the same way when the path was seen before", () => {
    const table = pathTable();
    const paths = PIECES.filter((piece) => piece.startsWith("/")).concat(
      "/v1/models/a",
      "/v2/models/m/infer",
      "/a/completions",
    );
    for (const method of ["POST", "GET", "PUT", "POST", "HEAD", "OPTIONS"])
      for (const path of paths) expect(table.judge(method, path)).toEqual(pathTable().judge(method, path));
  });
});
