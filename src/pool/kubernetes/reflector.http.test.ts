import { describe, expect, it } from "vitest";
import { answerBytes, chunkBytes, rawServer } from "../../../test/support/loopback.ts";
import { poll } from "../../../test/support/poll.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import { realClock } from "../../base/clock/real.ts";
import { silentLogger } from "../../base/telemetry/logger.ts";
import { POD } from "./api-client.ts";
import { HttpApiClient } from "./http-client.ts";
import { Reflector } from "./reflector.ts";

const pod = (name: string, version: number) => ({ metadata: { namespace: "ml", name, resourceVersion: `${version}` } });

describe("Reflector over HTTP", () => {
  it("R-30: follows a server whose connections break, and whose answers are cut short", async () => {
    const events = [
      JSON.stringify({ type: "ADDED", object: pod("b", 11) }),
      JSON.stringify({ type: "DELETED", object: pod("a", 12) }),
      JSON.stringify({ type: "ADDED", object: pod("ç", 13) }),
    ];
    const server = await rawServer(({ socket, index }) => {
      const chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
      if (index === 0) socket.end(`HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{"metadata":`);
      else if (index === 1)
        socket.write(answerBytes(200, JSON.stringify({ metadata: { resourceVersion: "10" }, items: [pod("a", 9)] })));
      // The second event is cut in the middle: it must be told by the next watch.
      else if (index === 2) {
        socket.write(chunked + chunkBytes(`${events[0]}\n${events[1]!.slice(0, 30)}`));
        socket.end();
      } else socket.write(chunked + chunkBytes(`${events[1]}\n${events[2]}\n`));
    });
    const api = new HttpApiClient({
      server: `http://127.0.0.1:${server.port}`,
      credentials: { ca: undefined, insecureSkipVerify: false, token: async () => undefined },
      clock: realClock,
    });
    const held = new Set<string>();
    const reflector = new Reflector<string>({
      api,
      type: POD,
      namespace: "ml",
      project: (object) => (object as ReturnType<typeof pod>).metadata.name,
      keyOf: (name) => ({ namespace: "ml", name }),
      sink: {
        replace: (items) => {
          held.clear();
          for (const item of items) held.add(item);
        },
        put: (item) => held.add(item),
        remove: ({ name }) => held.delete(name),
      },
      clock: realClock,
      random: new SeededRandom(1),
      log: silentLogger,
      tuning: { firstPause: 5 },
    });
    reflector.start();
    await poll("the last event", () => held.has("ç"));
    expect([...held].sort()).toEqual(["b", "ç"]);
    expect(server.requests.map(({ head }) => /resourceVersion=(\d+)/.exec(head)?.[1])).toEqual([
      undefined,
      undefined,
      "10",
      "11",
    ]);
    reflector.close();
    await poll("the end of the watch", () => server.open() === 0 || server.requests.length === 4);
    await api.close();
    await server.close();
  });
});
