import { DEFAULT_FRAME_SIZE, ERROR, MAX_31_BITS, MAX_HEADER_LIST, SETTING, STREAM_WINDOW, uint32 } from "./protocol.ts";

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

/** Takes what a client has set, as far as it concerns a server that pushes nothing and indexes no header. */
export interface SettingsTarget {
  /** @returns false when a stream's window would exceed 2^31 - 1 */
  initialWindowSize(size: number): boolean;
  maxFrameSize(size: number): void;
}

/** Bytes of one setting in a SETTINGS frame. */
export const SETTING_SIZE = 6;

/**
 * Checks every value in the payload of a SETTINGS frame, `bytes[from, to)`, then applies the last value of each setting, once
 * (RFC 9113, section 6.5.2). Applying may cost a look at every stream, and a frame has room for 2,730 values.
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
