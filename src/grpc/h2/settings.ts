import { DEFAULT_FRAME_SIZE, ERROR, MAX_31_BITS, MAX_HEADER_LIST, SETTING, STREAM_WINDOW, uint32 } from "./protocol.ts";

/**
 * The payload of this server's SETTINGS. No limit on concurrent streams: Envoy fails requests that it has already assigned
 * to a connection with a low limit (envoy-data-plane 1.8). The header table keeps its default size.
 */
export const SERVER_SETTINGS: Buffer = encode([
  [SETTING.initialWindowSize, STREAM_WINDOW],
  [SETTING.maxHeaderListSize, MAX_HEADER_LIST],
]);

/** Takes what a client has set, as far as it concerns a server that pushes nothing and indexes no header. */
export interface SettingsTarget {
  /** @returns false when a stream's window would exceed 2^31 - 1 */
  initialWindowSize(size: number): boolean;
  maxFrameSize(size: number): void;
}

/**
 * Applies the payload of a SETTINGS frame, `bytes[from, to)`, in order (RFC 9113, section 6.5.2).
 * @returns an error code; `ERROR.none` when every value is legal
 */
export function applySettings(bytes: Buffer, from: number, to: number, target: SettingsTarget): number {
  if ((to - from) % 6 !== 0) return ERROR.frameSize;
  for (let at = from; at < to; at += 6) {
    const value = uint32(bytes, at + 2);
    switch ((bytes[at]! << 8) | bytes[at + 1]!) {
      case SETTING.enablePush:
        if (value > 1) return ERROR.protocol;
        break;
      case SETTING.initialWindowSize:
        if (value > MAX_31_BITS || !target.initialWindowSize(value)) return ERROR.flowControl;
        break;
      case SETTING.maxFrameSize:
        if (value < DEFAULT_FRAME_SIZE || value > 0xffffff) return ERROR.protocol;
        target.maxFrameSize(value);
        break;
    }
  }
  return ERROR.none;
}

function encode(settings: readonly (readonly [id: number, value: number])[]): Buffer {
  const bytes = Buffer.alloc(6 * settings.length);
  settings.forEach(([id, value], index) => {
    bytes.writeUInt16BE(id, 6 * index);
    bytes.writeUInt32BE(value, 6 * index + 2);
  });
  return bytes;
}
