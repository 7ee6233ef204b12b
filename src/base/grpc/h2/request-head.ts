import type { HeaderField } from "./header-field.ts";
import type { HeaderSink } from "./hpack-decoder.ts";
import { MAX_HEADER_LIST } from "./protocol.ts";

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
    if (!field.legal) this.malformed = true;
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
  }

  #pseudo(name: string, value: string): void {
    if (this.#regular) this.malformed = true;
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
