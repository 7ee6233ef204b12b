import { describe, expect, it } from "vitest";
import type * as ZeroMq from "zeromq";
import { VirtualClock } from "../../base/clock/virtual.ts";
import type { EventMessage, SubscriptionEvents } from "./sockets.ts";
import { zeroMqSockets } from "./zeromq-sockets.ts";

/** What happens to a fake socket: a message, or an error of the socket itself. */
type Step = Buffer[] | Error;

const frames = (sequence: bigint): Buffer[] => {
  const number = Buffer.alloc(8);
  number.writeBigUInt64BE(sequence);
  return [Buffer.from("kv@a@m"), number, Buffer.from("payload")];
};

/** The package with sockets that do what `plans` says, one plan a socket. An Error as the plan is that of the constructor. */
function fakePackage(plans: (Step[] | Error)[]) {
  const options: { receiveHighWaterMark?: number; maxMessageSize?: number }[] = [];
  const contexts: { maxSockets?: number }[] = [];
  class Socket {
    readonly #steps: Step[];
    readonly events = { on() {} };
    constructor(given: object) {
      options.push(given);
      const plan = plans.shift() ?? [];
      if (plan instanceof Error) throw plan;
      this.#steps = plan;
    }
    subscribe() {}
    connect() {}
    close() {}
    async send() {}
    async receive(): Promise<Buffer[]> {
      const step = this.#steps.shift();
      if (step instanceof Error) throw step;
      return step ?? new Promise(() => {});
    }
  }
  class Context {
    constructor(given: object) {
      contexts.push(given);
    }
  }
  const load = () => ({ Subscriber: Socket, Dealer: Socket, Context }) as unknown as typeof ZeroMq;
  return { load, options, contexts };
}

/** Events as texts. */
function heard(onMessage: (message: EventMessage) => undefined = () => undefined) {
  const texts: string[] = [];
  const events: SubscriptionEvents & { done(): void } = {
    message(message) {
      texts.push(String(message.sequence));
      return onMessage(message);
    },
    disconnected: () => texts.push("disconnected"),
    done: () => texts.push("done"),
    fault(fault) {
      texts.push(fault);
      return undefined;
    },
  };
  return { events, texts: () => texts.splice(0) };
}

describe("zeroMqSockets", () => {
  it("names the command that installs the package where it is missing", () => {
    const missing = (): never => {
      throw new Error("Cannot find module 'zeromq'");
    };
    expect(() => zeroMqSockets(new VirtualClock(), missing)).toThrow(
      "KV-cache events need the package zeromq (npm install zeromq@6): Cannot find module 'zeromq'",
    );
  });

  it("loads the package where it is there", () => {
    expect(zeroMqSockets(new VirtualClock()).subscribe).toBeTypeOf("function");
  });

  it("has sockets for far more endpoints than the library by default, and a bounded queue for each", async () => {
    const { load, contexts, options } = fakePackage([]);
    const clock = new VirtualClock();
    zeroMqSockets(clock, load).subscribe("tcp://127.0.0.1:1", "", false, heard().events);
    await clock.advanceAsync(0);
    expect(contexts).toEqual([{ maxSockets: 65_535 }]);
    const { receiveHighWaterMark, maxMessageSize } = options[0]!;
    expect(receiveHighWaterMark! * maxMessageSize!).toBeLessThanOrEqual(64 * 2 ** 20);
  });

  it("tells of a socket that cannot be made, and makes it again after a while", async () => {
    const { load } = fakePackage([new Error("EMFILE"), [frames(4n)]]);
    const clock = new VirtualClock();
    const { events, texts } = heard();
    zeroMqSockets(clock, load).subscribe("tcp://127.0.0.1:1", "", false, events);
    expect(texts()).toEqual([]);
    await clock.advanceAsync(999);
    expect(texts()).toEqual(["connect"]);
    await clock.advanceAsync(1);
    expect(texts()).toEqual(["4"]);
  });

  it("tells of a replay that cannot be made, after the call", async () => {
    const { load } = fakePackage([new Error("EMFILE")]);
    const clock = new VirtualClock();
    const { events, texts } = heard();
    zeroMqSockets(clock, load).replay("tcp://127.0.0.1:1", 0, events);
    expect(texts()).toEqual([]);
    await clock.advanceAsync(0);
    expect(texts()).toEqual(["replay-send"]);
  });

  it("begins again after an error of the socket, and not once it is closed", async () => {
    const { load, options } = fakePackage([
      [frames(0n), new Error("ETERM")],
      [frames(1n), new Error("ETERM")],
    ]);
    const clock = new VirtualClock();
    const { events, texts } = heard();
    const subscription = zeroMqSockets(clock, load).subscribe("tcp://127.0.0.1:1", "", false, events);
    await clock.advanceAsync(1_000);
    expect(texts()).toEqual(["0", "recv", "disconnected", "1", "recv", "disconnected"]);
    subscription.close();
    await clock.advanceAsync(60_000);
    expect(options).toHaveLength(2);
  });

  it("a message that cannot be taken, and a sequence that is no number, are faults; the next message comes", async () => {
    const { load } = fakePackage([[frames(0n), frames(2n ** 64n - 1n), frames(1n)]]);
    const clock = new VirtualClock();
    const { events, texts } = heard(({ sequence }) => {
      if (sequence === 0) throw new RangeError("Array buffer allocation failed");
      return undefined;
    });
    zeroMqSockets(clock, load).subscribe("tcp://127.0.0.1:1", "", false, events);
    await clock.advanceAsync(0);
    expect(texts()).toEqual(["0", "malformed", "malformed", "1"]);
  });
});
