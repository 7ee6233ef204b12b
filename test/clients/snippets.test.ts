import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { getJson } from "../support/client.ts";
import { startGateway, type TestGateway } from "../support/gateway.ts";
import { poll } from "../support/poll.ts";
import { ROOT, TestProcess } from "../support/process.ts";
import { endpointsFile, type Sim, startSims } from "../support/stack.ts";
import { pythonEnv } from "./python-driver.ts";

// The examples of docs/use/gateway.md, as they are there but for the address of the gateway.

const PAGE = "docs/use/gateway.md";
const ADDRESS = "127.0.0.1:8080";

interface Snippet {
  readonly language: "python" | "ts";
  readonly line: number;
  readonly code: string;
}

function snippets(): Snippet[] {
  const text = readFileSync(join(ROOT, PAGE), "utf8");
  return [...text.matchAll(/^```(python|ts)\n([\s\S]*?)^```$/gm)].map((match) => ({
    language: match[1] as Snippet["language"],
    line: text.slice(0, match.index).split("\n").length,
    code: match[2]!,
  }));
}

let sims: Sim[];
let gateway: TestGateway;

beforeAll(async () => {
  sims = await startSims(2);
  gateway = await startGateway(endpointsFile(sims.map(({ port }) => port)));
  await poll("the list of models", async () => {
    const { data } = await getJson<{ data: unknown[] }>(`${gateway.url}/v1/models`);
    return data.length > 0;
  });
});

afterAll(async () => {
  await Promise.all([gateway?.process, ...(sims ?? []).map(({ process }) => process)].map((one) => one?.stop()));
});

describe(`the examples of ${PAGE}`, () => {
  const found = snippets();

  it("are there for each client", () => {
    const imports = found.map(
      ({ language, code }) => `${language} ${/from "?(openai|@anthropic-ai)|anthropic/.exec(code)?.[0]}`,
    );
    expect(new Set(imports).size).toBe(4);
  });

  it.each(found)("in $language, line $line", async ({ language, code }) => {
    expect(code).toContain(ADDRESS);
    const text = code.replaceAll(ADDRESS, gateway.url.slice("http://".length));
    const process =
      language === "python"
        ? new TestProcess("python3", ["-c", text], { env: pythonEnv() })
        : new TestProcess("node", ["--input-type=module-typescript", "-e", text]);
    const { code: status } = await process.ended(60_000);
    expect([status, process.stderr]).toEqual([0, ""]);
    // What a comment says is printed is printed.
    const told = /# \.\.\. (.*) \.\.\.$/m.exec(code)?.[1] ?? "";
    expect(process.stdout).toContain(told);
    expect(process.stdout.trim()).not.toBe("");
  });
});
