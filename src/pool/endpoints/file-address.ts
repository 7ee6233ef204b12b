import { isIPv4, isIPv6 } from "node:net";
import { unservable } from "./address.ts";

/**
 * Which addresses a file may hold. `strict`: IPv4 literals, as the published `file-discovery` plugin. `multicluster`:
 * also IPv6 literals and DNS-1123 subdomains, as its alpha `multicluster-file-discovery` (api-resources 6A.7). `lenient`:
 * also what Compose and people write, for `--endpoints` of our own commands. All take loopback, and none takes an
 * address that no server has: unspecified, link-local, multicast.
 */
export type EndpointsFlavour = "strict" | "multicluster" | "lenient";

/** Longest host name, in characters. */
const MAX_HOST_NAME = 253;
const DNS_1123 = /^[a-z0-9]([a-z0-9-]*[a-z0-9])?$/;

/**
 * Reads an address without a port.
 * @returns the address without brackets and in lower case, or what it must be instead
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
  const hint = /:\d+$/.test(text) ? "; the port has its own key" : "";
  return { problem: `must be an IP address or ${name}, not ${quoted}${hint}` };
}

function servable(address: string): { readonly address: string } | { readonly problem: string } {
  const kind = unservable(address);
  if (kind === undefined) return { address };
  return { problem: `must be the address of one server; ${address} is ${kind}` };
}

/** A name is judged by what would be dialled: URLs and resolvers read `0xa9fea9fe` and `2852039166` as IPv4 addresses. */
function dialable(name: string): { readonly address: string } | { readonly problem: string } {
  const url = URL.parse(`http://${name}`);
  if (url === null)
    return { problem: `must be an IP address or a host name; nobody can be reached at ${JSON.stringify(name)}` };
  const kind = unservable(url.hostname);
  // Short numbers are in 0.0.0.0/8. They are allowed as names, and there is no harm in dialling them.
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
