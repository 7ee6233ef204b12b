import { createServer, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** A model server that keeps the answers to completions back until the test lets them go. */
export class HoldingServer {
  readonly #server: Server;
  readonly #waiting: ServerResponse[] = [];
  #isHolding: boolean;
  /** Completions that have come. */
  seen = 0;

  private constructor(isHolding: boolean) {
    this.#isHolding = isHolding;
    this.#server = createServer((request, response) => {
      request.resume();
      if (request.method !== "POST") {
        const list = JSON.stringify({ object: "list", data: [{ id: "sim", object: "model" }] });
        response.writeHead(request.url === "/v1/models" ? 200 : 404).end(list);
        return;
      }
      request.on("end", () => {
        this.seen++;
        this.#waiting.push(response);
        if (!this.#isHolding) this.release();
      });
    });
  }

  static async start(isHolding: boolean): Promise<HoldingServer> {
    const made = new HoldingServer(isHolding);
    await new Promise<void>((resolve) => made.#server.listen(0, "127.0.0.1", resolve));
    return made;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** Completions that wait for their answers. */
  get waiting(): number {
    return this.#waiting.length;
  }

  /** Answers all, and from now on at once. */
  release(): void {
    this.#isHolding = false;
    const body = JSON.stringify({
      id: "c",
      object: "text_completion",
      model: "sim",
      choices: [{ index: 0, text: "yes" }],
    });
    for (const response of this.#waiting.splice(0)) response.setHeader("content-type", "application/json").end(body);
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}
