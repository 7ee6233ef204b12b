import type { HeaderField, HeaderSink } from "./hpack-decoder.ts";
import { MAX_HEADER_LIST } from "./protocol.ts";

/** Fields that speak of a connection and have no place in HTTP/2 (RFC 9113, section 8.2.2). */
const FORBIDDEN = new Set(["connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade"]);

/** A field name: a token without capitals (RFC 9113, section 8.2.1). */
const NAME = /^[!#$%&'*+\-.^_`|~0-9a-z]+$/;

const ILL_VALUE = /[\0\r\n]/;

/** What a server of gRPC needs to know of a request, gathered field by field. One object serves a whole connection. */
export class RequestHead implements HeaderSink {
  method = "";
  path = "";
  contentType = "";
  encoding = "";
  /** Against RFC 9113, section 8: a stream error. */
  malformed = false;
  #scheme = "";
  #regular = false;
  #size = 0;
  /** Field objects that were checked before: the tables hand out the same ones again and again. */
  readonly #checked = new WeakSet<HeaderField>();

  /** Forgets the last request. */
  reset(): void {
    this.method = "";
    this.path = "";
    this.contentType = "";
    this.encoding = "";
    this.malformed = false;
    this.#scheme = "";
    this.#regular = false;
    this.#size = 0;
  }

  /** Larger than this server accepts. */
  get tooLarge(): boolean {
    return this.#size > MAX_HEADER_LIST;
  }

  /** Whether the pseudo fields that every request has are there. */
  get complete(): boolean {
    return this.method !== "" && this.path !== "" && this.#scheme !== "";
  }

  /** Whether these are trailers: no pseudo fields at all. */
  get trailers(): boolean {
    return this.method === "" && this.path === "" && this.#scheme === "";
  }

  field(field: HeaderField): void {
    const { name, value } = field;
    this.#size += field.size;
    if (name.charCodeAt(0) === 0x3a) {
      this.#pseudo(name, value);
      return;
    }
    this.#regular = true;
    switch (name) {
      case "content-type":
        this.contentType = value;
        break;
      case "grpc-encoding":
        this.encoding = value;
        break;
    }
    if (this.#checked.has(field)) return;
    if (!NAME.test(name) || FORBIDDEN.has(name) || ILL_VALUE.test(value) || (name === "te" && value !== "trailers")) {
      this.malformed = true;
    } else {
      this.#checked.add(field);
    }
  }

  #pseudo(name: string, value: string): void {
    if (this.#regular || ILL_VALUE.test(value)) this.malformed = true;
    switch (name) {
      case ":method":
        if (this.method !== "") this.malformed = true;
        this.method = value;
        return;
      case ":path":
        if (this.path !== "") this.malformed = true;
        this.path = value;
        return;
      case ":scheme":
        if (this.#scheme !== "") this.malformed = true;
        this.#scheme = value;
        return;
      case ":authority":
        return;
      default:
        this.malformed = true;
    }
  }
}
