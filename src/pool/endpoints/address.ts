import { BlockList, isIP, isIPv6, SocketAddress } from "node:net";

/** Addresses that no single server has, by what is wrong with them (data-plane 4.5, D-58). */
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
 * Why nobody can be served at an address: it is unspecified, link-local, multicast or broadcast, IPv4 within IPv6
 * included. Undefined for any other address, loopback too, and for host names.
 * @param address literal without brackets
 */
export function unservable(address: string): string | undefined {
  const version = isIP(address);
  if (version === 0) return undefined;
  const family = version === 4 ? "ipv4" : "ipv6";
  return NO_SERVER.find(({ list }) => list.check(address, family))?.kind;
}

/**
 * One spelling per address, for comparing: IPv6 without brackets in its canonical text (RFC 5952), anything else in
 * lower case. Text that is no address comes back in lower case and so matches nothing but itself.
 */
export function normaliseAddress(text: string): string {
  if (!text.includes(":")) return text.toLowerCase();
  const bare = text.startsWith("[") && text.endsWith("]") ? text.slice(1, -1) : text;
  if (!isIPv6(bare) || bare.includes("%")) return bare.toLowerCase();
  return new SocketAddress({ address: bare, family: "ipv6" }).address;
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
