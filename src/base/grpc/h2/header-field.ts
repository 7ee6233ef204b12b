/** A header field; names and values hold one byte per character. Tables share fields between blocks: never changed. */
export interface HeaderField {
  readonly name: string;
  readonly value: string;
  /** Length of both plus 32 (RFC 7541, section 4.1). */
  readonly size: number;
  /** Whether HTTP/2 allows it in a request (RFC 9113, section 8.2). Judged once, for fields are met again and again. */
  readonly legal: boolean;
}

/** What RFC 7541 section 4.1 adds to the length of name and value. */
export const FIELD_OVERHEAD = 32;

/** Fields that speak of a connection and have no place in HTTP/2 (RFC 9113, section 8.2.2). */
const FORBIDDEN = new Set(["connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade"]);

/** A token without capitals, behind the colon of a pseudo field (RFC 9113, section 8.2.1). */
const NAME = /^:?[!#$%&'*+\-.^_`|~0-9a-z]+$/;

const ILL_VALUE = /[\0\r\n]/;

/** Makes a field from its texts. */
export function headerField(name: string, value: string): HeaderField {
  const legal =
    NAME.test(name) && !FORBIDDEN.has(name) && !ILL_VALUE.test(value) && (name !== "te" || value === "trailers");
  return { name, value, size: name.length + value.length + FIELD_OVERHEAD, legal };
}
