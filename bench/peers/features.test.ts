import { describe, expect, it } from "vitest";
import { type Feature, featuresOf, flagsIn } from "./features.ts";

const HELP = `Usage: sluice gateway [options]

Options:
  --endpoints <file>          the model servers; see --keys in the docs
  --request-log <which>       requests that get a line each
  -h, --help                  display help
`;

const feature = (flag: string): Feature => ({ flag, prepare: () => ({ args: [flag] }) });

describe("features of the gateway", () => {
  it("finds the flags of a help text, and not those that a description names", () => {
    expect([...flagsIn(HELP)]).toEqual(["--endpoints", "--request-log", "--help"]);
  });

  it("tells the features that a checkout has from those that it lacks", () => {
    const { has, lacks } = featuresOf(HELP, [feature("--request-log"), feature("--keys")]);
    expect(has.map(({ flag }) => flag)).toEqual(["--request-log"]);
    expect(lacks).toEqual(["--keys"]);
  });
});
