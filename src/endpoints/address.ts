import { isIPv6, SocketAddress } from "node:net";

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
