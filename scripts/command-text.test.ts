import { Option } from "commander";
import { describe, expect, it } from "vitest";
import { collect, command } from "../src/commands/common/command.ts";
import { queueCommand } from "../src/commands/dispatch/queue-commands.ts";
import { gatewayCommand } from "../src/commands/gateway/command.ts";
import { simCommand } from "../src/commands/sim/command.ts";
import { commandMarkdown } from "./command-text.ts";

describe("commandMarkdown", () => {
  it("shows arguments, options with their defaults, and no hidden ones", () => {
    const made = command("check", "looks at a server")
      .argument("<url>")
      .option("--mode <a|b>", "which of a|b")
      .option("--listen <address>", "where clients connect.", "127.0.0.1:8080")
      .option("--objective <name>", "an objective", collect, [])
      .option("--open", "answer everyone", false)
      .addOption(new Option("--secret").hideHelp());
    expect(commandMarkdown(made)).toBe(`## \`sluice check <url>\`

Looks at a server.

| Option | Default | Meaning |
|---|---|---|
| \`--mode <a\\|b>\` |  | which of a\\|b. |
| \`--listen <address>\` | \`127.0.0.1:8080\` | where clients connect. |
| \`--objective <name>\` |  | an objective. |
| \`--open\` |  | answer everyone. |
`);
  });

  it("describes the gateway, the simulator and the parts of a command", () => {
    expect(queueCommand().commands.map((part) => commandMarkdown(part).split("\n")[0])).toEqual([
      "## `sluice queue ls [queues...]`",
      "## `sluice queue peek <queue>`",
      "## `sluice queue cancel <ids...>`",
      "## `sluice queue requeue <queue>`",
      "## `sluice queue release [queues...]`",
    ]);
    expect(commandMarkdown(gatewayCommand())).toContain("| `--max-retries <number>` | `2` |");
    expect(commandMarkdown(simCommand())).not.toContain("until-stdin-closes");
  });
});
