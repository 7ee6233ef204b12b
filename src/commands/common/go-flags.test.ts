import { describe, expect, it } from "vitest";
import type { SluiceError } from "../../base/inference/errors.ts";
import { flagsHelp, flagsMarkdown } from "./flag-text.ts";
import { type FlagRow, parseGoFlags } from "./go-flags.ts";

const TABLE = [
  { name: "pool-name", aliases: ["poolName"], type: "string", default: "", since: "v0.3", help: "The pool." },
  {
    name: "grpc-port",
    aliases: ["grpcPort"],
    type: "int",
    min: 0,
    max: 65535,
    default: "9002",
    since: "v0.3",
    help: "A|B.",
  },
  { name: "secure-serving", type: "bool", default: "true", since: "v0.3", help: "TLS." },
  { name: "drain-timeout", type: "duration", min: 0, default: "30s", since: "HEAD", help: "Drain." },
  { name: "ports", type: "list", default: "1,2", takes: "PORTS", since: "v1.5", help: "Ports." },
  { name: "size", type: "quantity", min: 1024, default: "64Mi", since: "HEAD", help: "Size." },
  { name: "v", type: "int", default: "2", env: "VERBOSITY", since: "v0.3", help: "Verbosity." },
  { name: "mode", type: "string", choices: ["", "buffered", "none"], default: "", since: "ours", help: "Mode." },
  { name: "send", type: "quantity", min: 0, default: "", since: "HEAD", help: "Size." },
  {
    name: "tracing",
    type: "bool",
    default: "true",
    since: "v1.5",
    help: "",
    inert: { harmless: ["false"], otherwise: "warn", because: "has no effect" },
  },
  {
    name: "metric",
    type: "string",
    default: "vllm:x",
    since: "v1.0",
    help: "",
    inert: { harmless: ["vllm:x", ""], otherwise: "refuse", because: "is not supported yet" },
  },
] as const satisfies readonly FlagRow[];

const parse = (args: string[], env: Record<string, string> = {}) => parseGoFlags(args, TABLE, env);

function failureOf(...args: string[]): string {
  try {
    parse(args);
  } catch (error) {
    return `${(error as SluiceError).code}: ${(error as SluiceError).message}`;
  }
  throw new Error("accepted");
}

describe("parseGoFlags", () => {
  it("starts from the defaults and tells them from what was given", () => {
    const { values, explicit, help, warnings } = parse([]);
    expect(values).toEqual({
      "pool-name": "",
      "grpc-port": 9002,
      "secure-serving": true,
      "drain-timeout": 30_000,
      ports: ["1", "2"],
      size: 64 * 2 ** 20,
      v: 2,
      mode: "",
      send: 0,
      tracing: true,
      metric: "vllm:x",
    });
    expect([explicit.size, help, warnings.length]).toEqual([0, false, 0]);
    expect(parse(["--grpc-port=9002"]).explicit).toEqual(new Set(["grpc-port"]));
  });

  it.each([
    [["-poolName", "x", "-v", "4", "-grpcPort", "9"]],
    [["--pool-name", "x", "--v=4", "--grpc-port=9"]],
    [["-pool-name=x", "-v=4", "-grpc-port", "9"]],
    [["--poolName=x", "--v", "4", "--grpcPort", "9"]],
    [["-v4", "--pool-name", "x", "-grpcPort=9"]],
  ])("reads %j: both dashes, both forms, old and new names", (args) => {
    expect(parse(args).values).toMatchObject({ "pool-name": "x", v: 4, "grpc-port": 9 });
  });

  it.each([
    [["--secure-serving"], true],
    [["--secure-serving", "--v=3"], true],
    [["--secure-serving=false"], false],
    [["-secure-serving=F"], false],
    [["--secure-serving=1"], true],
    [["--secure-serving", "false"], false],
    [["--secure-serving", "true", "-v", "3"], true],
  ])(
    "reads the boolean in %j; a separate true or false belongs to it, as charts write it (E-122, pitfall 20)",
    (args, value) => {
      expect(parse(args).values["secure-serving"]).toBe(value);
    },
  );

  it("knows every spelling of Go's booleans, and no other (E-122)", () => {
    for (const [value, texts] of [
      [true, "1 t T TRUE true True"],
      [false, "0 f F FALSE false False"],
    ] as const)
      for (const text of texts.split(" "))
        for (const dashes of ["-", "--"])
          expect(parse([`${dashes}secure-serving=${text}`]).values["secure-serving"], text).toBe(value);
    for (const text of ["tRUE", "yes", "on", "2", " true"])
      expect(failureOf(`--secure-serving=${text}`)).toContain("use true or false");
  });

  it("adds up repeated lists, and takes the last of everything else", () => {
    const { values } = parse(["--ports", "8000, 8001,", "--ports=8002", "--v=3", "--v=4"]);
    expect([values.ports, values.v]).toEqual([["8000", "8001", "8002"], 4]);
  });

  it("keeps everything behind the first equals sign, and values that begin with a dash", () => {
    expect(parse(["--pool-name=a=b=c"]).values["pool-name"]).toBe("a=b=c");
    expect(parse(["--pool-name", "-x"]).values["pool-name"]).toBe("-x");
    expect(parse(["--v", "-1"]).values.v).toBe(-1);
    expect(parse(["--pool-name="]).values["pool-name"]).toBe("");
  });

  it.each([
    ["10Mi", 10 * 2 ** 20],
    ["10MiB", 10 * 2 ** 20],
    ["25MB", 25e6],
    ["2048", 2048],
    ["", 64 * 2 ** 20],
  ])("reads the size %j", (text, bytes) => {
    expect(parse([`--size=${text}`]).values.size).toBe(bytes);
  });

  it("takes one of the choices, however its letters are written", () => {
    expect(parse(["--mode=Buffered"]).values.mode).toBe("buffered");
    expect(parse(["--mode", ""]).values.mode).toBe("");
  });

  it("stops at --help and -h", () => {
    expect(parse(["--help", "--nonsense"]).help).toBe(true);
    expect(parse(["-v", "3", "-h"]).help).toBe(true);
  });

  it("falls back to the environment, and past malformed values there with a warning", () => {
    expect(parse([], { VERBOSITY: "5" }).values.v).toBe(5);
    expect(parse(["-v", "1"], { VERBOSITY: "5" }).values.v).toBe(1);
    expect(parse([], { VERBOSITY: "" }).values.v).toBe(2);
    const { values, warnings, explicit } = parse([], { VERBOSITY: "loud" });
    expect([values.v, explicit.size]).toEqual([2, 0]);
    expect(warnings).toEqual([
      'environment variable VERBOSITY is ignored: "loud" is not valid: the flag takes a whole number',
    ]);
  });

  it("accepts flags that do nothing where they ask for nothing, warns or refuses elsewhere", () => {
    expect(parse(["--tracing=false", '--metric="vllm:x"', "--metric="]).warnings).toEqual([]);
    expect(parse(["--tracing"]).warnings).toEqual(["--tracing has no effect"]);
    expect(failureOf("--metric=other")).toBe("FLAG_UNSUPPORTED: --metric is not supported yet");
  });

  it.each([
    [["--v4"], "FLAG_UNKNOWN: unknown flag --v4; did you mean --v?"],
    [["-v4x"], "FLAG_UNKNOWN: unknown flag --v4x; --help lists the flags"],
    [
      ["--mode=bufered"],
      'FLAG_VALUE: --mode="bufered" is not valid: the flag takes one of buffered, none; did you mean `buffered`?',
    ],
    [["--send=-1"], 'FLAG_VALUE: --send="-1" is not valid: the smallest value is 0'],
    [["--pool-nmae=x"], "FLAG_UNKNOWN: unknown flag --pool-nmae; did you mean --pool-name?"],
    [["--PoolName", "x"], "FLAG_UNKNOWN: unknown flag --PoolName; did you mean --pool-name?"],
    [["--something-else"], "FLAG_UNKNOWN: unknown flag --something-else; --help lists the flags"],
    [["x"], 'FLAG_SYNTAX: "x" is not a flag; write each value after its flag, as --name=value'],
    [["grpc-prt"], 'FLAG_SYNTAX: "grpc-prt" is not a flag; did you mean --grpc-port?'],
    [["--"], 'FLAG_SYNTAX: "--" is not a flag; write each value after its flag, as --name=value'],
    [["---v"], 'FLAG_SYNTAX: "---v" is not a flag; write each value after its flag, as --name=value'],
    [["-=3"], 'FLAG_SYNTAX: "-=3" is not a flag; write each value after its flag, as --name=value'],
    [
      ["--secure-serving", "no"],
      'FLAG_SYNTAX: --secure-serving takes no separate value, but "no" follows it; write --secure-serving or --secure-serving=false',
    ],
    [["--secure-serving=yes"], 'FLAG_VALUE: --secure-serving="yes" is not valid: use true or false'],
    [["--secure-serving="], 'FLAG_VALUE: --secure-serving="" is not valid: use true or false'],
    [["--pool-name"], "FLAG_SYNTAX: --pool-name needs a value (a string); write --pool-name=VALUE"],
    [
      ["--pool-name", "-grpcPort", "9"],
      "FLAG_SYNTAX: --pool-name needs a value (a string), but the flag -grpcPort follows; write --pool-name=VALUE",
    ],
    [["--grpc-port=9.5"], 'FLAG_VALUE: --grpc-port="9.5" is not valid: the flag takes a whole number'],
    [["--grpcPort", "65536"], 'FLAG_VALUE: --grpc-port="65536" is not valid: the largest value is 65535'],
    [["--grpc-port=-1"], 'FLAG_VALUE: --grpc-port="-1" is not valid: the smallest value is 0'],
    [
      ["--drain-timeout=30"],
      'FLAG_VALUE: --drain-timeout="30" is not valid: expected a duration with a unit such as "50ms", "5s" or "1m30s", got "30"',
    ],
    [["--drain-timeout=-1s"], 'FLAG_VALUE: --drain-timeout="-1s" is not valid: the smallest value is 0ms'],
    [["--drain-timeout=600h"], 'FLAG_VALUE: --drain-timeout="600h" is not valid: the largest value is 2147483647ms'],
    [["--size=1"], 'FLAG_VALUE: --size="1" is not valid: the smallest value is 1024'],
    [
      ["--size=big"],
      'FLAG_VALUE: --size="big" is not valid: expected a quantity such as 1000, "10Gi", "1G" or "500k", got "big"',
    ],
  ])("refuses %j and says how to put it right", (args, message) => {
    expect(failureOf(...args)).toBe(message);
  });
});

describe("help and reference", () => {
  it("show every flag that does something, with what it takes and its default", () => {
    const help = flagsHelp(TABLE);
    expect(help).toContain("  --ports PORTS\n        Ports. (default 1,2)\n");
    expect(help).toContain("  --secure-serving[=true|false]\n        TLS. (default true)\n");
    expect(help).toContain("  -v INT\n");
    expect(help).toContain("  --mode buffered|none\n");
    expect(help).not.toContain("tracing");
  });

  it("keep active and inert flags apart in Markdown, with cells that stay cells", () => {
    const lines = flagsMarkdown(TABLE).split("\n");
    expect(lines).toContain("| `--grpc-port`, `--grpcPort` | int | `9002` | v0.3 | A\\|B. |");
    expect(lines).toContain("| `--mode` | `buffered`, `none` |  | ours | Mode. |");
    expect(lines).toContain("| `-v` | int | `2` | v0.3 | Verbosity. Environment: `VERBOSITY`. |");
    expect(lines).toContain("| `--metric` | v1.0 | `vllm:x`, empty | refused | is not supported yet |");
    expect(lines).toContain("| `--tracing` | v1.5 | `false` | accepted with a warning | has no effect |");
  });
});
