import type { Endpoint } from "../../base/inference/endpoint.ts";
import type { BackgroundRequest, SparePlace, SpareRoom } from "../flowcontrol/spare-room.ts";

/** What one exchange means to the room for background requests: it is one of them, or it takes room from them. */
export class RoomUse {
  readonly #room: SpareRoom;
  /** Undefined = it is no background request. */
  #place: SparePlace | undefined;

  constructor(room: SpareRoom) {
    this.#room = room;
  }

  /** The exchange is a background request. @returns undefined = it may go on; else whether it may, once that is known */
  enter(request: Omit<BackgroundRequest, "left">): Promise<boolean> | undefined {
    const { promise, resolve } = Promise.withResolvers<boolean>();
    this.#place = this.#room.enter({ ...request, left: resolve });
    return this.#place.waiting ? promise : undefined;
  }

  /** The exchange counts at an endpoint from now on. */
  counted(endpoint: Endpoint): void {
    if (this.#place === undefined) this.#room.taken(endpoint);
    else this.#room.placed(this.#place, endpoint);
  }

  /** The count moves to another endpoint. */
  moved(endpoint: Endpoint): void {
    if (this.#place === undefined) this.#room.taken(endpoint);
    else this.#room.moved(this.#place, endpoint);
  }

  /** It need not wait for room any more. No effect unless it does. */
  cancel(): void {
    if (this.#place?.waiting) this.#room.ended(this.#place);
  }

  /** It is over and counts nowhere. */
  ended(): void {
    if (this.#place === undefined) this.#room.changed();
    else this.#room.ended(this.#place);
  }
}
