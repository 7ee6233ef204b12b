import { Reader } from "../../base/grpc/protobuf.ts";
import { HEADER } from "../../base/inference/headers.ts";
import type { SubsetHint } from "../../picker/exchange/wire.ts";
import type { ProcessingRequest } from "./messages.ts";
import { metadataBytesOf, readStruct } from "./metadata.ts";
import type { WireOptions } from "./wire-options.ts";

/** The metadata namespace of the hint (epp-protocol 6). */
const NAMESPACE = "envoy.lb.subset_hint";

/** More entries than any pool has. Entries beyond this number are not read. */
const MAX_ENTRIES = 8192;

/**
 * The hints of one stream. Envoy repeats its metadata with every message. To read a list of a hundred endpoints takes 0.1 ms,
 * more than all other work on a chunk. So a repeated hint is not read again.
 */
export class SubsetHints {
  readonly #anyPort: boolean;
  /** The bytes of the last hint, and the hint itself. */
  #bytes: Buffer | undefined;
  #hint: SubsetHint | undefined;

  constructor({ subsetMatch }: WireOptions) {
    this.#anyPort = subsetMatch === "ip";
  }

  /**
   * The hint of a message of the request phase; undefined when the message has none.
   * @throws SluiceError PROTOBUF_MALFORMED
   */
  of(request: ProcessingRequest): SubsetHint | undefined {
    const bytes = metadataBytesOf(request, NAMESPACE);
    if (bytes === undefined) return undefined;
    if (this.#bytes?.equals(bytes)) return this.#hint;
    const value = readStruct(new Reader(bytes))[HEADER.destinationSubset];
    this.#hint = value === undefined ? undefined : parseSubsetHint(value, this.#anyPort);
    // A copy: the message is a view of a socket's buffer.
    this.#bytes = Buffer.from(bytes);
    return this.#hint;
  }
}

/**
 * Reads the value of `x-gateway-destination-endpoint-subset`: one string or a list of strings, each possibly comma-separated
 * (epp-protocol 6.2, 6.3). A member that is no address matches nothing. A value of another kind allows nothing.
 * @param value from the metadata; not undefined
 * @param anyPort ignore ports, as v1.5 does
 */
export function parseSubsetHint(value: unknown, anyPort = false): SubsetHint {
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
      if (entry !== undefined) entries.push(anyPort ? { address: entry.address, port: undefined } : entry);
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
