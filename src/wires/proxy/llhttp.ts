import simd from "undici/lib/llhttp/llhttp_simd-wasm.js";
import plain from "undici/lib/llhttp/llhttp-wasm.js";

/**
 * The HTTP parser of Node.js, llhttp, as undici's package ships it in WebAssembly. It decides where a message begins and ends, so
 * that Sluice reads requests as Node.js does, and answers as undici and Node.js do.
 */

/** Return values of callbacks, and error codes of `llhttp_execute` and `llhttp_finish`. */
export const OK = 0;
export const SKIP_BODY = 1;
export const PAUSED = 21;
export const FAILED = -1;

/** Receives what the parser finds. Positions are bytes of the piece that is parsed. Each callback returns a value from above. */
export interface ParserEvents {
  onBegin(): number;
  /** The target of a request or a part of it. */
  onTarget(at: number, length: number): number;
  /** A name or a part of it. */
  onField(at: number, length: number): number;
  /** A value or a part of it. */
  onValue(at: number, length: number): number;
  /** @param status 0 for a request */
  onHead(status: number, upgrade: boolean, keepAlive: boolean): number;
  onBody(at: number, length: number): number;
  onComplete(): number;
}

/** The functions of the module that Sluice uses. A pointer is an address in its memory. */
interface Exports {
  readonly memory: { readonly buffer: ArrayBuffer };
  llhttp_alloc(type: number): number;
  llhttp_free(parser: number): void;
  llhttp_reset(parser: number): void;
  llhttp_resume(parser: number): void;
  llhttp_execute(parser: number, at: number, length: number): number;
  llhttp_finish(parser: number): number;
  llhttp_get_error_pos(parser: number): number;
  llhttp_get_error_reason(parser: number): number;
  llhttp_get_method(parser: number): number;
  llhttp_get_http_major(parser: number): number;
  llhttp_get_http_minor(parser: number): number;
  llhttp_method_name(method: number): number;
  malloc(bytes: number): number;
}

/** What a parser reads; the values of `llhttp_alloc`. */
export const REQUESTS = 1;
export const ANSWERS = 2;
/** Most bytes of one call. A read of a socket has no more. */
export const MOST_BYTES = 64 * 1024;

/** Undefined while no parser runs. */
let events: ParserEvents | undefined;
/** The place in the module's memory for the bytes to parse. */
let place = 0;
let room = new Uint8Array(0);
let llhttp: Exports | undefined;

function load(): Exports {
  const { WebAssembly } = globalThis as unknown as { WebAssembly: Wasm };
  // V8 lacks SIMD on some machines of these kinds. undici chooses in the same way.
  const module = new WebAssembly.Module(["ppc64", "riscv64"].includes(process.arch) ? plain : simd);
  const env = {
    wasm_on_message_begin: () => events!.onBegin(),
    wasm_on_url: (_: number, at: number, length: number) => events!.onTarget(at - place, length),
    wasm_on_status: () => OK,
    wasm_on_header_field: (_: number, at: number, length: number) => events!.onField(at - place, length),
    wasm_on_header_value: (_: number, at: number, length: number) => events!.onValue(at - place, length),
    wasm_on_headers_complete: (_: number, status: number, upgrade: number, keepAlive: number) =>
      events!.onHead(status, upgrade === 1, keepAlive === 1),
    wasm_on_body: (_: number, at: number, length: number) => events!.onBody(at - place, length),
    wasm_on_message_complete: () => events!.onComplete(),
  };
  const loaded = new WebAssembly.Instance(module, { env }).exports as unknown as Exports;
  place = loaded.malloc(MOST_BYTES);
  return loaded;
}

/** TypeScript has the types of WebAssembly only for browsers. */
interface Wasm {
  readonly Module: new (bytes: Uint8Array) => object;
  readonly Instance: new (module: object, imports: object) => { readonly exports: object };
}

/** A new parser. `freeParser` frees its memory. @param type `REQUESTS` or `ANSWERS` */
export function newParser(type: number): number {
  llhttp ??= load();
  return llhttp.llhttp_alloc(type);
}

/** Frees the memory of a parser, once. @param parser of `newParser` */
export function freeParser(parser: number): void {
  llhttp!.llhttp_free(parser);
}

/** The parser begins again with the first byte of an answer. */
export function resetParser(parser: number): void {
  llhttp!.llhttp_reset(parser);
}

/** The parser goes on after a callback has paused it. */
export function resumeParser(parser: number): void {
  llhttp!.llhttp_resume(parser);
}

/**
 * Parses at most `MOST_BYTES` bytes. All parsers share one place for the bytes, so no callback may run a parser: that throws.
 * @returns OK, PAUSED, or another error code; then see `errorAt` and `reasonOf`
 */
export function execute(parser: number, bytes: Uint8Array, to: ParserEvents): number {
  if (events !== undefined) throw new Error("a parser runs already");
  const { memory, llhttp_execute } = llhttp!;
  // The memory moves when it grows.
  if (room.buffer !== memory.buffer) room = new Uint8Array(memory.buffer, place, MOST_BYTES);
  room.set(bytes);
  events = to;
  try {
    return llhttp_execute(parser, place, bytes.length);
  } finally {
    events = undefined;
  }
}

/** The connection has ended. @returns OK, PAUSED, or an error code: the answer is not complete */
export function finish(parser: number, to: ParserEvents): number {
  if (events !== undefined) throw new Error("a parser runs already");
  events = to;
  try {
    return llhttp!.llhttp_finish(parser);
  } finally {
    events = undefined;
  }
}

/** How many bytes of the last piece were parsed when a callback or an error stopped the parser. */
export function errorAt(parser: number): number {
  return llhttp!.llhttp_get_error_pos(parser) - place;
}

/** Why the parser stopped. */
export function reasonOf(parser: number): string {
  return textAt(llhttp!.llhttp_get_error_reason(parser));
}

const methods: string[] = [];

/** The method of the request whose head the parser has read. */
export function methodOf(parser: number): string {
  const method = llhttp!.llhttp_get_method(parser);
  methods[method] ??= textAt(llhttp!.llhttp_method_name(method));
  return methods[method];
}

/** The version of the request whose head the parser has read, such as `1.1`. */
export function versionOf(parser: number): string {
  const [major, minor] = [llhttp!.llhttp_get_http_major(parser), llhttp!.llhttp_get_http_minor(parser)];
  return major === 1 && minor === 1 ? "1.1" : `${major}.${minor}`;
}

/** A text of the module, which ends with a zero. */
function textAt(at: number): string {
  if (at === 0) return "";
  const bytes = Buffer.from(llhttp!.memory.buffer, at);
  return bytes.toString("latin1", 0, bytes.indexOf(0));
}
