import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { fixedLimit } from "../../test/support/slowness.ts";

const MAIN = join(import.meta.dirname, "main.ts");
const folder = mkdtempSync(join(tmpdir(), "sluice-program-"));
afterAll(() => rmSync(folder, { recursive: true }));

function sluice(...args: string[]): { readonly status: number | null; readonly out: string; readonly err: string } {
  const options = { cwd: folder, encoding: "utf8", timeout: fixedLimit(20_000) } as const;
  const { status, stdout, stderr } = spawnSync(process.execPath, [MAIN, ...args], options);
  return { status, out: stdout, err: stderr };
}

function file(name: string, text: string): string {
  writeFileSync(join(folder, name), text);
  return name;
}

describe("a command that ends with an error", () => {
  it.each([
    [
      "a command",
      ["gatway"],
      /^sluice: unknown command gatway; did you mean gateway\?\n {2}COMMAND_UNKNOWN: .*#command_unknown\n$/,
    ],
    [
      "a command that is near no other",
      ["x\ny"],
      /^sluice: unknown command x y; sluice --help lists the commands\n {2}COMMAND_UNKNOWN: .*#command_unknown\n$/,
    ],
    [
      "a command of a command",
      ["queue", "peak"],
      /^sluice: unknown command peak; did you mean peek\?\n {2}COMMAND_UNKNOWN: .*\n$/,
    ],
    [
      "a flag",
      ["gateway", "--endpoint", "x"],
      /^sluice: unknown flag --endpoint of sluice gateway; did you mean --endpoints\?\n {2}FLAG_UNKNOWN: .*\n$/,
    ],
    [
      "a flag that is near no other",
      ["queue", "ls", "--nosuch"],
      /^sluice: unknown flag --nosuch of sluice queue ls; sluice queue ls --help lists the flags\n {2}FLAG_UNKNOWN: .*\n$/,
    ],
    [
      "a flag without its value",
      ["simulate", "--seeds"],
      /^sluice: a value is missing; write --seeds <number>\n {2}FLAG_SYNTAX: .*\n$/,
    ],
    [
      "a missing argument",
      ["explain-config"],
      /^sluice: give <file>; sluice explain-config --help describes it\n {2}FLAG_MISSING: .*\n$/,
    ],
    [
      "the number of arguments",
      ["sim", "a", "b"],
      /^sluice: sluice sim takes no argument, but got a, b\n {2}ARGUMENT_UNEXPECTED: .*#argument_unexpected\n$/,
    ],
    [
      "a flag of dispatch",
      ["dispatch", "--nosuch"],
      /^sluice: unknown flag --nosuch; --help lists the flags\n {2}FLAG_UNKNOWN: .*#flag_unknown\n$/,
    ],
    [
      "a value",
      ["gateway", "--endpoints", "e.yaml", "--listen", "here"],
      /^sluice: --listen "here" is not an address .*\n {2}FLAG_VALUE: .*#flag_value\n$/,
    ],
    [
      "a wrong address of the scaler",
      ["gateway", "--endpoints", "e.yaml", "--scaler", "there"],
      /^sluice: --scaler "there" is not an address .*\n {2}FLAG_VALUE: .*#flag_value\n$/,
    ],
    ["a missing flag", ["gateway"], /^sluice: give --endpoints FILE.*\n {2}[A-Z_]+: .*#[a-z_]+\n$/],
    [
      "a Go-style flag",
      ["epp", "--grpc-prt=1"],
      /^sluice: unknown flag --grpc-prt; did you mean --grpc-port\?\n {2}FLAG_UNKNOWN: .*#flag_unknown\n$/,
    ],
    [
      "the input that it names",
      ["simulate", "--quiet", "--replay", file("empty.log", "")],
      /^sluice: \S+ has nothing to replay: .*\n {2}[A-Z_]+: .*#[a-z_]+\n$/,
    ],
  ])(
    "ends with 2 where %s is wrong, and prints the message, then the code and its place in the docs",
    (_, args, message) => {
      const { status, out, err } = sluice(...args);
      expect(err).toMatch(message);
      expect({ status, out }).toEqual({ status: 2, out: "" });
    },
  );

  it("prints the code and its place in the docs for each file that validate refuses", () => {
    const { status, err } = sluice("validate", "nofile.yaml", file("list.yaml", "[]\n"));
    expect(err).toMatch(/^nofile\.yaml does not exist\n {2}DOCUMENT_MISSING: .*#document_missing\n.*list\.yaml:1:1: /);
    expect(err).toMatch(/\n {2}DOCUMENT_INVALID: .*#document_invalid\n$/);
    expect(status).toBe(1);
  });

  it("ends with 1 where a file is wrong", () => {
    const config = file("broken.yaml", "kind: [\n");
    const { status, err } = sluice("explain-config", config);
    expect(err).toMatch(/^sluice: broken\.yaml:\d+:\d+: .*\n {2}[A-Z_]+: docs\/reference\/errors\.md#[a-z_]+\n$/);
    expect(status).toBe(1);
  });

  it("prints the remedy below a message that does not say what to do, then the code and its place in the docs", async () => {
    const dead = createServer();
    const port = await new Promise<number>((resolve) =>
      dead.listen(0, "127.0.0.1", () => resolve((dead.address() as { port: number }).port)),
    );
    await new Promise((closed) => dead.close(closed));
    const check = sluice("check-server", `http://127.0.0.1:${port}`);
    expect(check.err).toMatch(
      /^sluice: cannot connect to .*\n {2}Start the model server, or correct the URL\.\n {2}CHECK_UNREACHABLE: docs\/reference\/errors\.md#check_unreachable\n$/,
    );
    expect(check).toMatchObject({ status: 2, out: "" });
    const queue = sluice("queue", "ls", "--redis", `redis://127.0.0.1:${port}`);
    expect(queue.err).toMatch(
      /^sluice: Redis at .*\n {2}Check that the broker runs.*\n {2}BROKER_UNAVAILABLE: docs\/reference\/errors\.md#broker_unavailable\n$/,
    );
    expect(queue).toMatchObject({ status: 1, out: "" });
  });

  it("ends with 1 and prints the message of a code that a plugin has made up", () => {
    const errors = join(import.meta.dirname, "..", "base", "inference", "errors.ts");
    const gate = file(
      "gate.mjs",
      `import { defineGate, z } from "sluice/plugin";
       import { SluiceError } from ${JSON.stringify(errors)};
       const create = () => { throw new SluiceError("MADE_UP", "no luck"); };
       export default defineGate({ type: "mine", describe: "d", parameters: z.object({}), create });`,
    );
    const config = file(
      "dispatch.yaml",
      `transport: sqlite
plugins: [./${gate}]
transport-config:
  path: queue.db
  queues:
  - queue_name: q
    igw_base_url: http://127.0.0.1:9
    gate_type: mine
`,
    );
    const { status, err } = sluice("dispatch", "--config", config, "--health-port=0", "--metrics-port=0");
    expect(err).toMatch(/^sluice: gate `mine` of queue `q`: no luck\n$/m);
    expect(err).not.toMatch(/\n\s+at |node:internal/);
    expect(status).toBe(1);
  });
});

describe("sluice sim", () => {
  it("prints the address that it listens on", () => {
    const of = (host: string) => sluice("sim", "--host", host, "--port", "0", "--until-stdin-closes").out;
    expect(of("0.0.0.0")).toMatch(/^listening name=sim address=0\.0\.0\.0:\d+ pid=\d+\n$/);
    expect(of("127.0.0.1")).toMatch(/^listening name=sim address=127\.0\.0\.1:\d+ pid=\d+\n$/);
  });

  it("says once that its port is in use, and what to do", async () => {
    const taken = createServer();
    const port = await new Promise<number>((resolve) =>
      taken.listen(0, "127.0.0.1", () => resolve((taken.address() as { port: number }).port)),
    );
    const { status, out, err } = sluice("sim", "--host", "127.0.0.1", "--port", String(port));
    await new Promise((closed) => taken.close(closed));
    expect(err).toBe(
      `sluice: cannot listen on 127.0.0.1:${port}: address already in use (EADDRINUSE)
  Choose another address or port, or stop the program that uses this address.
  LISTEN_FAILED: docs/reference/errors.md#listen_failed
`,
    );
    expect({ status, out }).toEqual({ status: 1, out: "" });
  });
});

describe("sluice --help", () => {
  it("says what the exit statuses mean", () => {
    const { status, out } = sluice("--help");
    expect(out).toContain("Exit status: 0 = success, 1 = an error, 2 = a wrong command line or wrong input");
    expect(status).toBe(0);
  });
});
