import type { Workload, WorkloadDefinition, WorkloadPort } from "../../simulator/workloads/workload.ts";
import { RecordedText } from "../replay/recorded-traffic.ts";
import type { Trace, TraceRequest } from "./trace-reader.ts";
import { HASH_BLOCK } from "./trace-row.ts";

/** Bytes of a block of text: four per token. */
const BLOCK_BYTES = HASH_BLOCK * 4;

/** The name of the workload of a trace. */
export const TRACE = "trace";

/** The workload of a trace, without the number of servers and the engine, which a trace does not contain. */
export function traceTraffic({
  requests,
  summary,
}: Trace): Pick<WorkloadDefinition, "name" | "about" | "rates" | "rateUnit" | "durationMs" | "make"> {
  const durationMs = Math.ceil(requests.at(-1)!.at + 1);
  const rate = Number(((requests.length * 1000) / durationMs).toPrecision(4));
  const text = summary.repeated === undefined ? "no two prompts share a beginning" : "equal hash ids are equal text";
  return {
    name: TRACE,
    about: `${summary.file}, at the times at which its requests came; ${text}`,
    ...{ rates: [rate], rateUnit: "requests/s", durationMs },
    make: () => new TracePlayback(requests),
  };
}

/** Sends the requests at their times. Makes the text of each only then: all texts together do not fit into memory. */
class TracePlayback implements Workload {
  readonly #requests: readonly TraceRequest[];

  constructor(requests: readonly TraceRequest[]) {
    this.#requests = requests;
  }

  start(port: WorkloadPort): void {
    const text = new TraceText();
    const arrive = (number: number): void => {
      const request = this.#requests[number];
      if (request === undefined) return;
      port.clock.after(request.at - port.clock.now(), () => {
        port.send({ prompt: text.prompt(number, request), outputTokens: request.outputTokens });
        arrive(number + 1);
      });
    };
    arrive(0);
  }
}

/** The texts of a trace: equal blocks have equal text, and two texts of different numbers share no beginning. */
export class TraceText {
  readonly #text = new RecordedText();

  /**
   * @param number of the request, from 0; it is the number of the text where the request has no blocks
   * @returns four bytes per token
   */
  prompt(number: number, { promptTokens, blocks }: TraceRequest): Uint8Array {
    if (blocks === undefined) return this.#text.tokens(number, 0, promptTokens);
    const prompt = new Uint8Array(promptTokens * 4);
    blocks.forEach((block, i) => {
      const tokens = Math.min(HASH_BLOCK, promptTokens - i * HASH_BLOCK);
      prompt.set(this.#text.tokens(block, 0, tokens), i * BLOCK_BYTES);
    });
    return prompt;
  }
}
