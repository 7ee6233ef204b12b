/** Frame types (RFC 9113, section 6). */
export const FRAME = {
  data: 0,
  headers: 1,
  priority: 2,
  rstStream: 3,
  settings: 4,
  pushPromise: 5,
  ping: 6,
  goaway: 7,
  windowUpdate: 8,
  continuation: 9,
} as const;

/** Frame flags. END_STREAM and ACK are the same bit, of different frames. */
export const FLAG = { endStream: 0x1, ack: 0x1, endHeaders: 0x4, padded: 0x8, priority: 0x20 } as const;

/** Error codes (RFC 9113, section 7). */
export const ERROR = {
  none: 0,
  protocol: 1,
  internal: 2,
  flowControl: 3,
  streamClosed: 5,
  frameSize: 6,
  refusedStream: 7,
  cancel: 8,
  compression: 9,
  enhanceYourCalm: 11,
} as const;

/** Settings (RFC 9113, section 6.5.2). */
export const SETTING = {
  enablePush: 2,
  maxConcurrentStreams: 3,
  initialWindowSize: 4,
  maxFrameSize: 5,
  maxHeaderListSize: 6,
} as const;

/** Bytes in front of every frame's payload. */
export const FRAME_HEADER = 9;

/** Limits before any SETTINGS, for both sides: payload of a frame, window of a stream and of a connection, in bytes. */
export const DEFAULT_FRAME_SIZE = 16_384;
export const DEFAULT_WINDOW = 65_535;

/** The largest window, stream id and error code field: 31 bits. */
export const MAX_31_BITS = 0x7fffffff;

/**
 * Receive window of each stream: the bytes that may have to wait for a paused handler, outside of the budget for bodies. 1 MiB
 * (envoy-data-plane 1.8) would be a gigabyte for 1,000 uploads that wait.
 */
export const STREAM_WINDOW = 256 * 1024;

/** Receive window of a connection, which up to 1,024 streams of one Envoy worker share. */
export const CONNECTION_WINDOW = 16 * 1024 * 1024;

/** The largest header list accepted, in bytes as RFC 7541 section 4.1 counts them; the same limit holds for its encoding. */
export const MAX_HEADER_LIST = 64 * 1024;

/** The preface: the first bytes of every client. */
export const PREFACE = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "latin1");

/** The 32-bit number at `at`, most significant byte first, as an unsigned integer. */
export function uint32(bytes: Uint8Array, at: number): number {
  return bytes[at]! * 0x1000000 + ((bytes[at + 1]! << 16) | (bytes[at + 2]! << 8) | bytes[at + 3]!);
}

/**
 * The payload of this server's SETTINGS. The header table keeps its default size.
 * @param maxStreams calls that a client may have open at a time on one connection. A low number makes Envoy fail requests
 * that it has already assigned to the connection (envoy-data-plane 1.8); Envoy itself opens at most 1,024.
 */
export function serverSettings(maxStreams: number): Buffer {
  return encode([
    [SETTING.initialWindowSize, STREAM_WINDOW],
    [SETTING.maxHeaderListSize, MAX_HEADER_LIST],
    [SETTING.maxConcurrentStreams, maxStreams],
  ]);
}

/** Applies the settings of a client that concern a server which pushes nothing and indexes no header. */
export interface SettingsTarget {
  /** @returns false when a stream's window would exceed 2^31 - 1 */
  initialWindowSize(size: number): boolean;
  maxFrameSize(size: number): void;
}

/** Bytes of one setting in a SETTINGS frame. */
export const SETTING_SIZE = 6;

/**
 * Checks every value in the payload of a SETTINGS frame, `bytes[from, to)`, then applies the last value of each setting, once
 * (RFC 9113, section 6.5.2). To apply a value may mean to visit every stream, and a frame has room for 2,730 values.
 * @returns an error code; `ERROR.none` when every value is legal
 */
export function applySettings(bytes: Buffer, from: number, to: number, target: SettingsTarget): number {
  if ((to - from) % SETTING_SIZE !== 0) return ERROR.frameSize;
  let initialWindowSize = -1;
  let maxFrameSize = -1;
  for (let at = from; at < to; at += SETTING_SIZE) {
    const value = uint32(bytes, at + 2);
    switch ((bytes[at]! << 8) | bytes[at + 1]!) {
      case SETTING.enablePush:
        if (value > 1) return ERROR.protocol;
        break;
      case SETTING.initialWindowSize:
        if (value > MAX_31_BITS) return ERROR.flowControl;
        initialWindowSize = value;
        break;
      case SETTING.maxFrameSize:
        if (value < DEFAULT_FRAME_SIZE || value > 0xffffff) return ERROR.protocol;
        maxFrameSize = value;
        break;
    }
  }
  if (maxFrameSize >= 0) target.maxFrameSize(maxFrameSize);
  return initialWindowSize < 0 || target.initialWindowSize(initialWindowSize) ? ERROR.none : ERROR.flowControl;
}

function encode(settings: readonly (readonly [id: number, value: number])[]): Buffer {
  const bytes = Buffer.alloc(SETTING_SIZE * settings.length);
  settings.forEach(([id, value], index) => {
    bytes.writeUInt16BE(id, SETTING_SIZE * index);
    bytes.writeUInt32BE(value, SETTING_SIZE * index + 2);
  });
  return bytes;
}
