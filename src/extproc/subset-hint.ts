import type { SubsetHint } from "../exchange/wire.ts";

/** More entries than any pool has: what lies behind them is not read. */
const MAX_ENTRIES = 8192;

/**
 * Reads the value of `x-gateway-destination-endpoint-subset`: a list of strings, each possibly comma-separated, or one
 * string (epp-protocol 6.2, 6.3). Members that are no address match nothing; a value of another kind allows nothing.
 * @param value as it stood in the metadata; not undefined
 */
export function parseSubsetHint(value: unknown): SubsetHint {
  const entries: { address: string; port: number | undefined }[] = [];
  const seen = new Set<string>();
  for (const member of Array.isArray(value) ? value : [value]) {
    if (typeof member !== "string") continue;
    for (const part of member.split(",")) {
      const text = part.trim();
      if (text === "" || seen.has(text)) continue;
      if (seen.size >= MAX_ENTRIES) return entries;
      seen.add(text);
      const entry = parseEntry(text);
      if (entry !== undefined) entries.push(entry);
    }
  }
  return entries;
}

function parseEntry(text: string): { address: string; port: number | undefined } | undefined {
  const bracketed = /^\[([^\]]+)\](?::(\d{1,5}))?$/.exec(text);
  if (bracketed !== null) return entry(bracketed[1]!, bracketed[2]);
  const colons = text.split(":").length - 1;
  if (colons !== 1) return entry(text, undefined);
  const [address, port] = text.split(":") as [string, string];
  return /^\d{1,5}$/.test(port) ? entry(address, port) : undefined;
}

function entry(address: string, port: string | undefined): { address: string; port: number | undefined } | undefined {
  if (port === undefined) return { address, port: undefined };
  const number = Number(port);
  return number >= 1 && number <= 65535 ? { address, port: number } : undefined;
}
