import type { Clock, Timer } from "../../base/clock/clock.ts";
import { GRPC_STATUS } from "../../base/grpc/status.ts";
import type { GrpcStream } from "../../base/grpc/transport.ts";
import { isActiveResponse } from "./messages.ts";

/** Streams at a time. KEDA opens one for each trigger. */
export const MAX_STREAMS = 64;
/** Streams of one ScaledObject at a time, so that one whose streams stay open leaves places to the others. */
export const MAX_STREAMS_PER_OBJECT = 8;
/** Milliseconds between two checks whether a state has changed, for the changes that no event announces. */
const CHECK = 1000;

/** A gRPC status that is not OK, with its message. */
export interface Refusal {
  readonly status: number;
  readonly message: string;
}

/** What one stream follows. */
export interface Followed {
  /** Namespace and name of the ScaledObject. */
  readonly object: string;
  /** Whether there is work at present, or why the scaler cannot say. */
  active(): boolean | Refusal;
  /** Calls `listener` whenever there may be work, until the returned function is called. */
  onWork(listener: () => void): () => void;
}

/**
 * The open StreamIsActive calls. Each gets the present state, then every change: work at once, its end within a second. A client
 * that reads slowly gets the latest state only.
 */
export class ActivityStreams {
  readonly #clock: Clock;
  readonly #streams = new Set<ActivityStream>();
  #check: Timer | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Streams at present. */
  get size(): number {
    return this.#streams.size;
  }

  /** Takes a call in, or ends it. @returns what to do once the call is over */
  open(stream: GrpcStream, followed: Followed): (() => void) | undefined {
    const ofObject = [...this.#streams].filter(({ object }) => object === followed.object).length;
    if (this.#streams.size >= MAX_STREAMS || ofObject >= MAX_STREAMS_PER_OBJECT) {
      stream.end(
        GRPC_STATUS.resourceExhausted,
        `too many open streams: at most ${MAX_STREAMS_PER_OBJECT} of one ScaledObject and ${MAX_STREAMS} of all`,
      );
      return undefined;
    }
    const opened = new ActivityStream(stream, followed, () => this.#streams.delete(opened));
    this.#streams.add(opened);
    opened.update();
    this.#checkLater();
    return () => opened.forget();
  }

  /** Ends all streams. */
  end(refusal: Refusal): void {
    for (const stream of [...this.#streams]) stream.end(refusal);
    this.#check?.cancel();
  }

  #checkLater(): void {
    if (this.#check !== undefined || this.#streams.size === 0) return;
    this.#check = this.#clock.after(
      CHECK,
      () => {
        this.#check = undefined;
        for (const stream of [...this.#streams]) stream.update();
        this.#checkLater();
      },
      true,
    );
  }
}

class ActivityStream {
  readonly #stream: GrpcStream;
  readonly #followed: Followed;
  readonly #over: () => void;
  /** The last state that the client got; undefined = none yet. */
  #sent: boolean | undefined;
  /** "behind": the client reads too slowly, and gets nothing until it has caught up. */
  #state: "current" | "behind" | "over" = "current";
  /** Ends the subscription to work, which exists while the client believes that there is none. */
  #unsubscribe: (() => void) | undefined;

  constructor(stream: GrpcStream, followed: Followed, over: () => void) {
    this.#stream = stream;
    this.#followed = followed;
    this.#over = over;
  }

  get object(): string {
    return this.#followed.object;
  }

  /** Sends the state if it has changed. */
  update(): void {
    if (this.#state !== "current") return;
    const active = this.#followed.active();
    if (typeof active === "object") {
      this.end(active);
      return;
    }
    if (active === this.#sent) return;
    this.#sent = active;
    if (active) this.#stopListening();
    else this.#unsubscribe = this.#followed.onWork(() => this.update());
    if (this.#stream.send(isActiveResponse(active))) return;
    this.#state = "behind";
    this.#stream.whenWritable(() => {
      if (this.#state === "behind") this.#state = "current";
      this.update();
    });
  }

  end({ status, message }: Refusal): void {
    this.forget();
    this.#stream.end(status, message);
  }

  /** The call is over. */
  forget(): void {
    this.#state = "over";
    this.#stopListening();
    this.#over();
  }

  #stopListening(): void {
    this.#unsubscribe?.();
    this.#unsubscribe = undefined;
  }
}
