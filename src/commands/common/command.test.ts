import { describe, expect, it } from "vitest";
import { gatewayCommand } from "../gateway/command.ts";
import { trueOrFalse } from "./command.ts";

describe("a flag that is on unless it says otherwise", () => {
  it("takes true and false", () => {
    expect(["true", "false"].map((text) => trueOrFalse(text, "--on"))).toEqual([true, false]);
  });

  it.each(["", "no", "0", "TRUE"])("refuses %j and says what to give", (text) => {
    expect(() => trueOrFalse(text, "--on")).toThrow(`--on is "${text}"; give true or false`);
  });

  it("is refused by the gateway before anything starts", async () => {
    const run = gatewayCommand().parseAsync(["--endpoints", "none.yaml", "--learn-bytes-per-token", "maybe"], {
      from: "user",
    });
    await expect(run).rejects.toThrow('--learn-bytes-per-token is "maybe"');
  });
});
