import { BlockList, isIP, isIPv4, isIPv6, SocketAddress } from "node:net";
import { hostPort } from "../../base/inference/endpoint.ts";

/** Addresses that no single server has, by their fault (envoy-data-plane 4.5, D-58). */
const NO_SERVER: readonly { readonly kind: string; readonly list: BlockList }[] = [
  { kind: "unspecified", list: blocks(["0.0.0.0", 8, "ipv4"], ["::", 128, "ipv6"]) },
  { kind: "link-local", list: blocks(["169.254.0.0", 16, "ipv4"], ["fe80::", 10, "ipv6"]) },
  { kind: "multicast", list: blocks(["224.0.0.0", 4, "ipv4"], ["ff00::", 8, "ipv6"]) },
  { kind: "broadcast", list: blocks(["255.255.255.255", 32, "ipv4"]) },
];

function blocks(...subnets: readonly (readonly [string, number, "ipv4" | "ipv6"])[]): BlockList {
  const list = new BlockList();
  for (const [net, prefix, family] of subnets) list.addSubnet(net, prefix, family);
  return list;
}

/**
 * Why no server can be at an address: it is unspecified, link-local, multicast or broadcast, IPv4 within IPv6 included.
 * Undefined for any other address, loopback too, and for host names.
 * @param address literal without brackets
 */
function unservable(address: string): string | undefined {
  const version = isIP(address);
  if (version === 0) return undefined;
  const family = version === 4 ? "ipv4" : "ipv6";
  return NO_SERVER.find(({ list }) => list.check(address, family))?.kind;
}

/**
 * One spelling per address, for comparisons: IPv6 without brackets in its canonical text (RFC 5952), any other text in lower
 * case. Text that is no address therefore matches only itself.
 */
export function normaliseAddress(text: string): string {
  if (!text.includes(":")) return text.toLowerCase();
  const bare = text.startsWith("[") && text.endsWith("]") ? text.slice(1, -1) : text;
  if (!isIPv6(bare) || bare.includes("%")) return bare.toLowerCase();
  return new SocketAddress({ address: bare, family: "ipv6" }).address;
}

/** `address:port` in that spelling: endpoints are found by it, and replicas name them by it. */
export function addressKey({ address, port }: { readonly address: string; readonly port: number }): string {
  return hostPort(normaliseAddress(address), port);
}

/**
 * Splits `address:port` or `[v6]:port` and normalises the address.
 * @returns undefined when there is no port or it is not a decimal integer in 1..65535
 */
export function splitHostPort(text: string): { readonly address: string; readonly port: number } | undefined {
  const colon = text.lastIndexOf(":");
  if (colon <= 0) return undefined;
  const port = portOf(text.slice(colon + 1));
  const host = text.slice(0, colon);
  if (port === undefined || (host.includes(":") && !host.startsWith("["))) return undefined;
  return { address: normaliseAddress(host), port };
}

/** A decimal integer in 1..65535 without sign or blanks, else undefined. */
export function portOf(text: string): number | undefined {
  if (!/^\d{1,5}$/.test(text)) return undefined;
  const port = Number(text);
  return port >= 1 && port <= 65535 ? port : undefined;
}

/**
 * The addresses that a file may hold. `strict`: IPv4 literals, as the published `file-discovery` plugin. `multicluster`: also
 * IPv6 literals and DNS-1123 subdomains, as its alpha `multicluster-file-discovery` (api-resources 6A.7). `lenient`: also names
 * of Compose and of people, for `--endpoints` of Sluice's own commands. All accept loopback. None accepts an address that no
 * server has: unspecified, link-local, multicast.
 */
export type EndpointsFlavour = "strict" | "multicluster" | "lenient";

/** Longest host name, in characters. */
const MAX_HOST_NAME = 253;
const DNS_1123 = /^[a-z0-9]([a-z0-9-]*[a-z0-9])?$/;

/**
 * Reads an address without a port.
 * @returns the address without brackets and in lower case, or the description of a valid address
 */
export function readAddress(
  text: string,
  flavour: EndpointsFlavour,
): { readonly address: string } | { readonly problem: string } {
  if (isIPv4(text)) return servable(text);
  const quoted = JSON.stringify(text);
  if (flavour === "strict") return { problem: `must be a literal IPv4 address here, not ${quoted}` };
  const lenient = flavour === "lenient";
  const bare = lenient && text.startsWith("[") && text.endsWith("]") ? text.slice(1, -1) : text;
  if (isIPv6(bare) && !bare.includes("%")) return servable(bare);
  if (text.length <= MAX_HOST_NAME && (lenient ? isHostName(text) : isSubdomain(text))) return dialable(text);
  const name = lenient ? "a host name" : "a host name in lower case";
  const hint = /^https?:/i.test(text)
    ? "; the scheme has its own key"
    : /:\d+$/.test(text)
      ? "; the port has its own key"
      : "";
  return { problem: `must be an IP address or ${name}, not ${quoted}${hint}` };
}

function servable(address: string): { readonly address: string } | { readonly problem: string } {
  const kind = unservable(address);
  if (kind === undefined) return { address };
  return { problem: `must be the address of one server; ${address} is ${kind}` };
}

/**
 * A name is judged by the address that would be dialled: URLs and resolvers read `0xa9fea9fe` and `2852039166` as IPv4
 * addresses.
 */
function dialable(name: string): { readonly address: string } | { readonly problem: string } {
  const url = URL.parse(`http://${name}`);
  if (url === null) return { problem: `must be an IP address or a host name, not ${JSON.stringify(name)}` };
  const kind = unservable(url.hostname);
  // Short numbers are in 0.0.0.0/8. They are allowed as names, and to dial them does no harm.
  if (kind === undefined || kind === "unspecified") return { address: name.toLowerCase() };
  return { problem: `must be the address of one server; ${name} stands for ${url.hostname}, which is ${kind}` };
}

/** A DNS-1123 subdomain as Kubernetes has it, at most 253 characters: digits alone are a name, and labels may be long. */
function isSubdomain(text: string): boolean {
  return text.split(".").every((label) => DNS_1123.test(label));
}

/**
 * DNS labels of letters, digits, hyphens and underscores (Compose service names have them), at most 63 characters each.
 * A last label of digits alone is a mistyped IPv4 address.
 */
function isHostName(text: string): boolean {
  const labels = text.split(".");
  return (
    labels.every((label) => /^[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?$/i.test(label)) && !/^\d+$/.test(labels.at(-1)!)
  );
}
