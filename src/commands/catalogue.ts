import type { Command } from "commander";

/** What `sluice --help` says of a command, and the command itself. */
export interface CommandRow {
  /** The name, then what it takes. */
  readonly term: string;
  readonly about: string;
  /** Loads its flags. The command loads what it runs later. */
  load(): Promise<Command>;
}

/**
 * All commands in the order of `sluice --help`. The texts repeat those of the commands, so that a start loads no command but
 * the one that it runs.
 */
export const COMMANDS: readonly CommandRow[] = [
  {
    term: "demo [options]",
    about: "start simulated model servers, the gateway and live traffic, and show where requests go",
    load: async () => (await import("./demo/command.ts")).demoCommand(),
  },
  {
    term: "init [options] [urls...]",
    about: "ask model servers for their engine, models and metrics, and write a gateway.yaml for them",
    load: async () => (await import("./init/command.ts")).initCommand(),
  },
  {
    term: "gateway [options]",
    about: "route HTTP requests to model servers, without Kubernetes and without Envoy",
    load: async () => (await import("./gateway/command.ts")).gatewayCommand(),
  },
  {
    term: "keys",
    about: "create and change the keys of gateway clients",
    load: async () => (await import("./keys/command.ts")).keysCommand(),
  },
  {
    term: "epp [flags...]",
    about: "the Endpoint Picker behind Envoy's ext_proc filter; takes the reference's flags (--help)",
    load: async () => (await import("./epp/command.ts")).eppCommand(),
  },
  {
    term: "dispatch [options] [flags...]",
    about: "the Async Processor: send queued requests into spare capacity; takes the reference's flags (--help)",
    load: async () => (await import("./dispatch/command.ts")).dispatchCommand(),
  },
  {
    term: "enqueue [options] [input]",
    about: "put requests on a queue of the Async Processor; prints their ids, one per line",
    load: async () => (await import("./dispatch/queue-commands.ts")).enqueueCommand(),
  },
  {
    term: "results [options]",
    about: "take results from a result queue and print them, one JSON object per line",
    load: async () => (await import("./dispatch/queue-commands.ts")).resultsCommand(),
  },
  {
    term: "queue",
    about: "inspect and repair the queues of the Async Processor",
    load: async () => (await import("./dispatch/queue-commands.ts")).queueCommand(),
  },
  {
    term: "batch [options] <in.jsonl> <out.jsonl>",
    about:
      "send a batch file (OpenAI's format) through the Async Processor, or continue it; ls, show, cancel: batches of the Batch API",
    load: async () => {
      const { batchCommand } = await import("./dispatch/queue-commands.ts");
      const { withApiBatches } = await import("./batch/command.ts");
      return withApiBatches(batchCommand());
    },
  },
  {
    term: "batch-server [options]",
    about: "OpenAI's Batch API (files and batches) in front of a gateway, in one process",
    load: async () => (await import("./batch-server/command.ts")).batchServerCommand(),
  },
  {
    term: "doctor [options]",
    about: "check a running gateway, its servers and files, and say what to do",
    load: async () => (await import("./doctor/command.ts")).doctorCommand(),
  },
  {
    term: "top [options]",
    about: "watch a running gateway, picker, dispatcher or batch server in the terminal",
    load: async () => (await import("./top/command.ts")).topCommand(),
  },
  {
    term: "explain [options] [id]",
    about: "explain why a request went to its endpoint, or why it was refused",
    load: async () => (await import("./explain/command.ts")).explainCommand(),
  },
  {
    term: "validate [options] [files...]",
    about: "check EndpointPickerConfig, gateway.yaml, dispatch.yaml and endpoints files as Sluice does at its start",
    load: async () => (await import("./config/command.ts")).validateCommand(),
  },
  {
    term: "explain-config [options] <file>",
    about: "print every effective value of an EndpointPickerConfig, and its origin",
    load: async () => (await import("./config/command.ts")).explainConfigCommand(),
  },
  {
    term: "migrate-config [options] <file>",
    about: "print an EndpointPickerConfig of any release in the newest form",
    load: async () => (await import("./config/command.ts")).migrateConfigCommand(),
  },
  {
    term: "envoy-config [options]",
    about: "print an Envoy configuration made from an InferencePool",
    load: async () => (await import("./envoy-config/command.ts")).envoyConfigCommand(),
  },
  {
    term: "sim [options]",
    about: "a simulated model server: HTTP, streaming, metrics, latency, LoRA, faults",
    load: async () => (await import("./sim/command.ts")).simCommand(),
  },
  {
    term: "simulate [options] [workload...]",
    about: "compare routing policies on simulated engines, with the scheduler that runs in production",
    load: async () => (await import("./simulate/command.ts")).simulateCommand(),
  },
  {
    term: "check-server [options] [url]",
    about: "check a live model server against the model server protocol, one verdict per line",
    load: async () => (await import("./check-server/command.ts")).checkServerCommand(),
  },
];

/** The name of the command. */
export function nameOf({ term }: CommandRow): string {
  return term.split(" ", 1)[0]!;
}

/** The command that a command line names, be it for its help: the first word that is no flag. @param args after the program */
export function commandIn(args: readonly string[]): CommandRow | undefined {
  const words = args.filter((word) => !word.startsWith("-"));
  const name = words[0] === "help" ? words[1] : words[0];
  return COMMANDS.find((row) => nameOf(row) === name);
}
