import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import type { DispatchOptions } from "../../async/dispatch/config/options.ts";
import { errorRow } from "../../base/inference/error-codes/table.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import { dispatchCommand, runDispatch } from "./command.ts";
import { dispatchHelp, dispatchReference } from "./dispatch-flag-table.ts";

const folder = mkdtempSync(join(tmpdir(), "sluice-dispatch-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const config = join(folder, "dispatch.yaml");
const SECTION = `transport: sqlite
transport-config: {path: q.db, queues: [{queue_name: q, igw_base_url: "http://user:hunter2@g"}]}
`;

interface Outcome {
  readonly status: number | string;
  readonly stdout: string;
  readonly stderr: string;
  readonly ran: DispatchOptions | undefined;
}

async function dispatch(args: readonly string[], run = async () => 0): Promise<Outcome> {
  let stdout = "";
  let stderr = "";
  let ran: DispatchOptions | undefined;
  const status = await runDispatch(args, {
    env: {},
    stdout: (text) => {
      stdout += text;
    },
    stderr: (text) => {
      stderr += text;
    },
    run: (options) => {
      ran = options;
      return run();
    },
  }).catch((error: SluiceError) => `threw ${error.code}: ${error.message}`);
  return { status, stdout, stderr, ran };
}

function configured(text: string): string[] {
  writeFileSync(config, text);
  return ["--config", config];
}

describe("sluice dispatch (A-84)", () => {
  it("runs with what was asked for, and ends with its status", async () => {
    const { status, stdout, stderr, ran } = await dispatch([...configured(SECTION), "--concurrency=3"], async () => 7);
    expect(status).toBe(7);
    expect(ran?.pools).toEqual([{ id: "default", workers: 3, gate: undefined }]);
    expect(stdout).toBe("");
    // Time, level, logger, message, fields: as the reference logs.
    expect(stderr).toMatch(/^\S+\tINFO\tsetup\tflags in force\t\{"flags":\{"config":/);
    expect(stderr).toContain('"concurrency":"3"');
    expect(stderr).not.toContain("hunter2");
  });

  it("shows the usage on stdout when it is asked for", async () => {
    for (const word of ["--help", "-h", "-help"])
      expect(await dispatch([word])).toEqual({ status: 0, stdout: dispatchHelp(), stderr: "", ran: undefined });
    expect(dispatchHelp()).toMatch(/--drain-timeout DURATION\n.*\(default 2m\)/);
    expect(dispatchHelp()).not.toContain("--redis.url URL");
    expect(dispatchCommand().helpInformation()).toBe(dispatchHelp());
  });

  it.each([
    ["--concurency=3", "unknown flag --concurency; did you mean --concurrency?"],
    ["--concurrency=many", '--concurrency="many" is not valid: the flag takes a whole number'],
    ["--concurrency=0", '--concurrency="0" is not valid: the smallest value is 1'],
    [
      "--zap-log-level=loud",
      '--zap-log-level="loud" is not valid: the flag takes debug, info, error, panic or a number of 1 or more',
    ],
    [
      "--request-timeout",
      "--request-timeout needs a value (a duration such as 50ms or 1m30s); write --request-timeout=VALUE",
    ],
    ["concurrency", '"concurrency" is not a flag; did you mean --concurrency?'],
  ])("refuses %s with an error that ends the command with status 2", async (flag, message) => {
    const { status, stdout, stderr, ran } = await dispatch([flag]);
    const [code, text] = /^threw (\S+): (.*)$/s.exec(String(status))!.slice(1);
    expect([text, stdout, stderr, ran]).toEqual([message, "", "", undefined]);
    expect(errorRow(code!)?.exit).toBe(2);
  });

  it("refuses combinations of flags with a message and its code, status 1", async () => {
    expect(await dispatch(["--transport=sqlite"])).toEqual({
      status: 1,
      stdout: "",
      stderr:
        "invalid configuration: --transport-config or --transport-config-file is required\n  FLAG_CONFLICT: docs/reference/errors.md#flag_conflict\n",
      ran: undefined,
    });
    expect((await dispatch([])).stderr).toMatch(/^no configuration: give --config FILE .*\n {2}FLAG_MISSING: /);
    expect((await dispatch(["--metrics-endpoint-auth", ...configured(SECTION)])).stderr).toMatch(
      /^invalid configuration: --metrics-endpoint-auth=true is not supported;/,
    );
  });

  it("logs what keeps it from starting, and leaves it to the front door to print it", async () => {
    const { status, stderr, ran } = await dispatch(configured(SECTION.replace("path", "pth")));
    expect(status).toMatch(/^threw DOCUMENT_INVALID: /);
    expect(ran).toBeUndefined();
    expect(stderr).toMatch(
      /\tERROR\tsetup\tRunner failed\t\{"error":"invalid dispatch configuration: .*path: is missing/,
    );
    const refused = await dispatch(configured(SECTION), () => {
      throw new SluiceError("GATE_UNKNOWN", "gate type `x` of queue q is not known");
    });
    expect(refused.status).toMatch(/^threw GATE_UNKNOWN: /);
    expect(refused.stderr).toContain('Runner failed\t{"error":"gate type `x` of queue q is not known"}');
  });

  it("logs warnings, in the way that is asked for", async () => {
    const { stderr } = await dispatch([
      ...configured(`${SECTION}pool-config: [{id: default, workers: 1}]\n`),
      "--concurrency=2",
      "--zap-encoder=json",
    ]);
    const lines = stderr
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as { level: string; msg: string });
    expect(lines.map(({ level, msg }) => [level, msg])).toEqual([
      ["info", "flags in force"],
      ["warn", "--concurrency has no effect: each worker pool sets its own workers"],
    ]);
  });

  it("has its flags in the reference, the older ones in a table of their own", () => {
    const page = dispatchReference();
    expect(page).toContain("| `--drain-timeout` | duration | `2m` | v0.7 |");
    expect(page).toContain("| `--redis.ss.batch-size` | int | `10` | v0.1 |");
    expect(page).toContain("| batch_size in --transport-config |");
  });
});
