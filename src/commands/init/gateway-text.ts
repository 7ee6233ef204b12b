import { oneLine } from "../../base/inference/errors.ts";
import type { ServerFacts } from "../../lab/check/server-facts.ts";

/** The addresses of the gateway that will run. */
export interface GatewayAddresses {
  readonly listen: string;
  readonly admin: string;
}

/** The longest comment about one server, in characters. */
const MAX_COMMENT = 160;
/** What some readers of YAML take for the end of a line, and `oneLine` leaves. */
const LINE_ENDS = /[\u0085\u2028\u2029]/g;

/** The text of a gateway.yaml for these servers. A server that does not answer is an entry, too: it may come back. */
export function gatewayText(servers: readonly ServerFacts[], { listen, admin }: GatewayAddresses): string {
  const names = serverNames(servers);
  const entries = servers.map((server, i) => entryOf(server, names[i]!));
  const secure = servers.some(({ origin }) => origin.startsWith("https:"));
  return `# Written by sluice init. Saving a change is enough: the gateway follows this file.
# sluice validate --schema gateway > gateway.schema.json lets editors complete and check the keys.
# yaml-language-server: $schema=gateway.schema.json

listeners:
- address: ${quoted(listen)}  # for clients; other machines need keys and TLS: see docs/use/gateway.md

admin:
  address: ${quoted(admin)}  # health, metrics, /debug and the page

${secure ? "# The servers have TLS. `ca: FILE` names an authority that Node.js does not know.\nservers: { tls: {} }\n\n" : ""}# The gateway asks each server for its models; \`models: [NAME]\` in an entry states them instead.
endpoints:
  list:
${entries.join("")}
picker:
  profile: default  # by prefix and load

# Keys for clients: sluice keys add --name NAME
# keys: { file: keys.yaml }

log:
  requests: { which: errors }  # all, errors, 1/N or off
`;
}

function entryOf(server: ServerFacts, name: string): string {
  const { hostname, port } = new URL(server.origin);
  const address = hostname.replace(/^\[|\]$/g, "");
  // URL takes away the usual ports.
  const number = port === "" ? (server.origin.startsWith("https:") ? "443" : "80") : port;
  const labels =
    server.engine === undefined || server.engine === "vllm"
      ? ""
      : `, labels: { llm-d.ai/engine-type: ${server.engine} }`;
  const comment = commentsOf(server).map(
    (text) => `  # ${oneLine(text).replace(LINE_ENDS, " ").slice(0, MAX_COMMENT)}\n`,
  );
  return `${comment.join("")}  - { name: ${name}, address: ${quoted(address)}, port: ${number}${labels} }\n`;
}

function commentsOf(server: ServerFacts): string[] {
  if (server.problem !== undefined) return [`did not answer when this file was written: ${server.problem}`];
  const lines = [`${engineText(server)}: ${server.models.join(", ") || "lists no model"}`];
  if (server.modelsProblem !== undefined)
    lines.push(`did not list its models, so state \`models: [NAME]\`: ${server.modelsProblem}`);
  if (server.metricsProblem !== undefined) lines.push(`gets requests without its metrics: ${server.metricsProblem}`);
  return lines;
}

/** `vllm 0.11.0`, or what is known of it. */
export function engineText({ engine, version, isSimulator }: ServerFacts): string {
  const name = engine ?? "a server of an unknown kind";
  return oneLine(
    [name, version, isSimulator ? "(sluice sim)" : undefined].filter((part) => part !== undefined).join(" "),
  );
}

/** A name for each server: the engine and a number. */
export function serverNames(servers: readonly ServerFacts[]): string[] {
  const counts = new Map<string, number>();
  return servers.map(({ engine }) => {
    const kind = engine ?? "server";
    const number = counts.get(kind) ?? 0;
    counts.set(kind, number + 1);
    return `${kind}-${number}`;
  });
}

/** A text in YAML. Servers and command lines choose it, so no character of it may have a meaning. */
function quoted(text: string): string {
  return /^[A-Za-z0-9][A-Za-z0-9.-]*$/.test(text) && Number.isNaN(Number(text)) ? text : JSON.stringify(text);
}
