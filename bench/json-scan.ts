/**
 * Speed of the JSON scanner that reads request bodies, beside `JSON.parse` of the same bytes in the same run.
 *
 *   node bench/json-scan.ts
 *
 * Bodies are chat completions: one long user message of English-like text with escaped line feeds, as prompts have.
 * "parser" is the whole chat-completions parser, result object included.
 */

import { JsonMembers } from "../src/picker/apis/json/members.ts";
import { JsonScanner } from "../src/picker/apis/json/scanner.ts";
import { chatCompletions } from "../src/picker/apis/openai.ts";
import { SseUsageReader } from "../src/picker/apis/usage/sse-usage.ts";

const SENTENCE = "The endpoint picker reads only what routing needs and forwards the bytes it received. ";

function chatBody(size: number, content: string): Buffer {
  const messages = [
    { role: "system", content: "You are a helpful assistant." },
    { role: "user", content: content.repeat(Math.ceil(size / content.length)).slice(0, size) },
  ];
  return Buffer.from(
    JSON.stringify({ model: "meta-llama/Llama-3.1-8B-Instruct", messages, max_tokens: 256, stream: true }),
  );
}

/** Nanoseconds of one call: the best of five rounds of about 60 ms each. */
function measure(run: () => unknown): number {
  let calls = 1;
  let best = Number.POSITIVE_INFINITY;
  for (let round = -2; round < 5; round++) {
    const started = process.hrtime.bigint();
    for (let i = 0; i < calls; i++) run();
    const spent = Number(process.hrtime.bigint() - started);
    // The first rounds warm the code and find how many calls make a round.
    if (round < 0) calls = Math.max(1, Math.round((calls * 60e6) / spent));
    else best = Math.min(best, spent / calls);
  }
  return best;
}

const members = new JsonMembers(["model", "messages", "stream"]);
const rows: Record<string, unknown>[] = [];
const texts = [
  ["English, LF per ~500 B", `${SENTENCE.repeat(6)}\n`],
  ["code, escape per ~20 B", 'if (kind === "array")\n  return undefined;\n'],
  ["Chinese", "路由只读取它需要的内容，并转发收到的字节。"],
] as const;
for (const [text, content] of texts) {
  for (const [label, size] of [
    ["1 KB", 1 << 10],
    ["16 KB", 16 << 10],
    ["400 KB", 400 << 10],
    ["8 MB", 8 << 20],
  ] as const) {
    const body = chatBody(text === "Chinese" ? Math.round(size / 3) : size, content);
    const mbps = (ns: number) => Math.round((body.length / ns) * 1000);
    const scan = measure(() => members.read(new JsonScanner(body)));
    const parser = measure(() => chatCompletions.parse(body, ""));
    const parse = measure(() => JSON.parse(body.toString()));
    rows.push({
      text,
      body: label,
      "scan us": Number((scan / 1000).toFixed(2)),
      "scan MB/s": mbps(scan),
      "parser MB/s": mbps(parser),
      "JSON.parse MB/s": mbps(parse),
      "times JSON.parse": Number((parse / scan).toFixed(2)),
    });
  }
}
console.table(rows);

const event = (choices: string) =>
  Buffer.from(`data: {"id":"chatcmpl-1","object":"chat.completion.chunk",${choices}}\n\n`);
const token = event(
  '"created":1,"model":"m","choices":[{"index":0,"delta":{"content":" token"},"finish_reason":null}]',
);
const empty = event('"choices":[],"usage":null');
const reader = new SseUsageReader();
const half = token.length >> 1;
const [head, rest] = [token.subarray(0, half), token.subarray(half)];
const last = event('"choices":[],"usage":{"prompt_tokens":1024,"total_tokens":1280,"completion_tokens":256}');
console.table({
  "event without usage": { "ns per event": Math.round(measure(() => reader.feed(token))) },
  "event with usage: null": {
    "ns per event": Math.round(measure(() => reader.feed(empty))),
  },
  "event in two chunks": {
    "ns per event": Math.round(
      measure(() => {
        reader.feed(head);
        reader.feed(rest);
      }),
    ),
  },
  "event with usage": { "ns per event": Math.round(measure(() => reader.feed(last))) },
});
