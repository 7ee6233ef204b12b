/** Bytes of a topic that count. */
const MAX_TOPIC = 256;
/** Above it, a number does not tell a sequence from the next one. No engine sends as many messages. */
const MAX_SEQUENCE = Number.MAX_SAFE_INTEGER - 1;

/** A message of a publisher (scheduling 3.14). */
export interface EventMessage {
  readonly topic: string;
  /** From 0 up. */
  readonly sequence: number;
  readonly payload: Buffer;
}

/** What goes wrong with a socket, as the counter of errors names it. */
export type SocketFault =
  | "bind"
  | "connect"
  | "recv"
  | "malformed"
  | "unknown-pod"
  | "replay-send"
  | "replay-no-progress"
  | "replay-incomplete";

export interface SubscriptionEvents {
  /** @returns a promise when the next message should wait for it */
  message(message: EventMessage): Promise<void> | undefined;
  /** The connection to the publisher is lost. The socket connects again by itself. */
  disconnected(): void;
  /** @returns as `message` */
  fault(fault: SocketFault, error: unknown): Promise<void> | undefined;
}

export interface ReplayEvents {
  message(message: EventMessage): Promise<void> | undefined;
  /** The publisher has sent all that it has. */
  done(): void;
  fault(fault: SocketFault, error: unknown): void;
}

/** Something that ends. */
export interface Closable {
  close(): void;
}

/** The sockets to publishers of KV events, as `EventFeed` uses them. They throw nothing: what fails is a fault, after the call. */
export interface EventSockets {
  /**
   * Subscribes to a publisher.
   * @param address such as `tcp://10.0.0.1:5557`
   * @param topic only messages whose topic begins with it come
   * @param bind publishers connect to this address, instead of Sluice to theirs
   */
  subscribe(address: string, topic: string, bind: boolean, events: SubscriptionEvents): Closable;
  /** Asks a publisher for the messages that it still has, from a sequence on. */
  replay(address: string, from: number, events: ReplayEvents): Closable;
}

/** Returns the message in the frames of a publication; undefined for anything else. */
export function messageIn(frames: readonly Buffer[]): EventMessage | undefined {
  const [topic, sequence, payload] = frames;
  if (frames.length !== 3) return undefined;
  const number = sequenceIn(sequence!);
  if (number === undefined) return undefined;
  return { topic: topic!.toString("utf8", 0, MAX_TOPIC), sequence: number, payload: payload! };
}

/**
 * Returns the message in the frames of a replay, "done" for its last one, undefined for anything else. Engines send the sequence
 * and the payload, behind an empty frame; newer ones put the topic before the sequence.
 */
export function replayedIn(frames: readonly Buffer[]): EventMessage | "done" | undefined {
  const rest = frames[0]?.length === 0 ? frames.slice(1) : frames;
  const [topic, sequence, payload] = rest.length === 2 ? [undefined, ...rest] : rest;
  if (rest.length > 3 || sequence?.length !== 8 || payload === undefined) return undefined;
  // The sequence of the last message is -1.
  if (payload.length === 0) return "done";
  const number = sequenceIn(sequence);
  if (number === undefined) return undefined;
  return { topic: topic?.toString("utf8", 0, MAX_TOPIC) ?? "", sequence: number, payload };
}

/** Returns the frames that ask for a replay. */
export function replayRequest(from: number): [Buffer, Buffer] {
  const sequence = Buffer.alloc(8);
  sequence.writeBigUInt64BE(BigInt(from));
  return [Buffer.alloc(0), sequence];
}

function sequenceIn(frame: Buffer): number | undefined {
  if (frame.length !== 8) return undefined;
  const sequence = frame.readUInt32BE(0) * 2 ** 32 + frame.readUInt32BE(4);
  return sequence <= MAX_SEQUENCE ? sequence : undefined;
}
