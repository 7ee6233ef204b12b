import type { Command } from "commander";
import { sentence } from "../../base/document/words.ts";
import { PEERS_VARIABLE, type PeersGiven } from "../../pool/peers/peers-settings.ts";
import type { FlagRow, GivenFlags } from "./go-flags.ts";

const HELP = {
  peers:
    "Redis or Valkey through which replicas share their load and the prompts that they placed: redis://HOST:6379, or rediss:// with TLS. With ?master_name=NAME, the host is a Sentinel. Each &addr=HOST:PORT names one more Sentinel, or one more node of a cluster",
  name: "replicas with the same name share; give each pool on one store its own name",
  ca: "PEM file of CA certificates that Sluice trusts for the store; default: those of the system",
  cert: "PEM file of the client certificate for the store",
  key: "PEM file of the key of --peers-cert",
} as const;

/** Flags of `sluice epp` for replicas that share what they know. */
export const PEERS_FLAGS = [
  {
    ...row("peers", `${HELP.peers}. Empty: each replica knows only its own requests`),
    takes: "URL",
    env: PEERS_VARIABLE,
  },
  row("peers-name", `${HELP.name}. Default: NAMESPACE/POOL in Kubernetes, else \`default\``),
  { ...row("peers-ca", HELP.ca), takes: "FILE" },
  { ...row("peers-cert", HELP.cert), takes: "FILE" },
  { ...row("peers-key", HELP.key), takes: "FILE" },
] as const satisfies readonly FlagRow[];

function row<N extends string>(name: N, help: string) {
  return { name, type: "string", default: "", since: "ours", help: sentence(help) } as const;
}

/** What the flags of `sluice epp` say. The environment is not in it. */
export function peersGiven({ values, explicit }: GivenFlags<typeof PEERS_FLAGS>): PeersGiven {
  const given = (name: keyof typeof values): string | undefined => (explicit.has(name) ? values[name] : undefined);
  return {
    redis: values.peers || undefined,
    name: given("peers-name"),
    ca: values["peers-ca"] || undefined,
    certificate: values["peers-cert"] || undefined,
    key: values["peers-key"] || undefined,
  };
}

/** The options of `sluice gateway` for replicas that share what they know. */
export interface PeersOptions {
  readonly peers?: string;
  readonly peersName?: string;
  readonly peersCa?: string;
  readonly peersCert?: string;
  readonly peersKey?: string;
}

export function withPeersOptions(command: Command): Command {
  return command
    .option("--peers <url>", `${HELP.peers}. Absent: the environment variable ${PEERS_VARIABLE}`)
    .option("--peers-name <name>", `${HELP.name}; absent = the name default`)
    .option("--peers-ca <file>", HELP.ca)
    .option("--peers-cert <file>", HELP.cert)
    .option("--peers-key <file>", HELP.key);
}
