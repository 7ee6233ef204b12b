import { afterEach, describe, expect, it } from "vitest";
import { ask } from "../../../test/support/client.ts";
import { poll } from "../../../test/support/poll.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { type Authorize, loopbackOnly } from "./access.ts";
import { type DispatchAdmin, type DispatchViews, startDispatchAdmin } from "./dispatch-server.ts";

const VIEWS: DispatchViews = {
  metrics: (format) => (format === "text" ? "things_total 7\n" : "# EOF\n"),
  ready: () => true,
  check: async () => {},
  gates: () => [{ queue: "q1", budget: 0.5 }],
  queues: async () => [{ queue: "q1", waiting: 3 }],
};

let running: DispatchAdmin[] = [];
afterEach(async () => {
  await Promise.all(running.map((admin) => admin.close()));
  running = [];
});

async function start(
  views: Partial<DispatchViews> = {},
  more: { authorize?: Authorize; clock?: VirtualClock; healthPort?: number; metricsPort?: number } = {},
): Promise<{ readonly health: string; readonly metrics: string; readonly admin: DispatchAdmin }> {
  const admin = await startDispatchAdmin({
    ...{ host: "127.0.0.1", healthPort: 0, metricsPort: 0, clock: new VirtualClock() },
    ...{ authorize: loopbackOnly(false), ...more, views: { ...VIEWS, ...views } },
  });
  running.push(admin);
  const url = (port: number) => `http://127.0.0.1:${port}`;
  return { health: url(admin.healthPort), metrics: url(admin.metricsPort), admin };
}

const elsewhere: Authorize = (request) => loopbackOnly(false)({ ...request, peer: "192.0.2.7" });

describe("the health port (A-86)", () => {
  it("is alive and ready, in these words", async () => {
    const { health } = await start();
    for (const [path, text] of [
      ["/healthz", '{"status":"ok"}'],
      ["/readyz", '{"status":"ready"}'],
    ] as const) {
      const answer = await ask(`${health}${path}`);
      expect([answer.status, answer.text]).toEqual([200, text]);
      expect(answer.headers["content-type"]).toMatch(/^application\/json/);
    }
  });

  it("is alive but not ready before the start and after the signal, without asking the broker", async () => {
    let asked = 0;
    const check = async () => void asked++;
    const { health } = await start({ ready: () => false, check });
    expect(await ask(`${health}/readyz`)).toMatchObject({ status: 503, text: '{"status":"not ready"}' });
    expect((await ask(`${health}/healthz`)).status).toBe(200);
    expect(asked).toBe(0);
  });

  it("says what the broker's check failed with", async () => {
    const check = async () => {
      throw new Error("connect ECONNREFUSED 127.0.0.1:6379");
    };
    const { health } = await start({ check });
    expect(await ask(`${health}/readyz`)).toMatchObject({
      status: 503,
      text: '{"status":"not ready","error":"connect ECONNREFUSED 127.0.0.1:6379"}',
    });
    expect((await ask(`${health}/healthz`)).status).toBe(200);
  });

  it("forgets a failure when the next check succeeds", async () => {
    let broken = true;
    const check = () => {
      if (broken) throw new Error("not connected");
      return Promise.resolve();
    };
    const { health } = await start({ check });
    expect((await ask(`${health}/readyz`)).text).toBe('{"status":"not ready","error":"not connected"}');
    broken = false;
    expect((await ask(`${health}/readyz`)).status).toBe(200);
  });

  it("waits 3 s for a broker that is silent, asks it once for many probes, and hears it when it answers", async () => {
    const clock = new VirtualClock();
    let asked = 0;
    let answer = (): void => {};
    const check = () => {
      asked++;
      return new Promise<void>((resolve) => {
        answer = resolve;
      });
    };
    const { health } = await start({ check }, { clock });
    const probes = Array.from({ length: 20 }, () => ask(`${health}/readyz`));
    await poll("the probes", () => clock.pending === 20);
    clock.advance(2_999);
    clock.advance(1);
    for (const probe of await Promise.all(probes))
      expect(probe).toMatchObject({ status: 503, text: '{"status":"not ready","error":"no answer within 3 s"}' });
    expect(asked).toBe(1);

    const next = ask(`${health}/readyz`);
    await poll("the next probe", () => clock.pending === 1);
    expect(asked).toBe(1);
    answer();
    expect((await next).status).toBe(200);
    const afresh = ask(`${health}/readyz`);
    await poll("another question", () => asked === 2);
    answer();
    expect((await afresh).status).toBe(200);
    expect(clock.pending).toBe(0);
  });

  it("answers probes from elsewhere, and has nothing else", async () => {
    const { health } = await start({}, { authorize: elsewhere });
    expect((await ask(`${health}/readyz`)).status).toBe(200);
    for (const path of ["/metrics", "/debug/gates", "/"]) {
      expect(await ask(`${health}${path}`)).toMatchObject({
        status: 404,
        text: "the paths are /healthz and /readyz\n",
      });
    }
  });
});

describe("the metrics port", () => {
  it("writes the page in the format the scraper prefers", async () => {
    const { metrics } = await start();
    const text = await ask(`${metrics}/metrics`);
    expect([text.text, text.headers["content-type"]]).toEqual([
      "things_total 7\n",
      "text/plain; version=0.0.4; charset=utf-8",
    ]);
    const open = await ask(`${metrics}/metrics`, { headers: { accept: "application/openmetrics-text;version=1.0.0" } });
    expect([open.text, open.headers["content-type"]]).toEqual([
      "# EOF\n",
      "application/openmetrics-text; version=1.0.0; charset=utf-8",
    ]);
  });

  it("shows gates and queues to this machine alone", async () => {
    const here = await start();
    expect(JSON.parse((await ask(`${here.metrics}/debug/gates`)).text)).toEqual([{ queue: "q1", budget: 0.5 }]);
    expect(JSON.parse((await ask(`${here.metrics}/debug/queues`)).text)).toEqual([{ queue: "q1", waiting: 3 }]);
    const there = await start({}, { authorize: elsewhere });
    expect((await ask(`${there.metrics}/metrics`)).status).toBe(200);
    for (const path of ["/debug/gates", "/debug/queues", "/elsewhere"])
      expect([path, (await ask(`${there.metrics}${path}`)).status]).toEqual([path, 403]);
  });

  it("asks the rule about the metrics too", async () => {
    const authorize: Authorize = ({ authorization }) =>
      authorization === "Bearer abc" ? undefined : { status: 401, message: "a token is needed" };
    const { metrics } = await start({}, { authorize });
    expect(await ask(`${metrics}/metrics`)).toMatchObject({ status: 401, text: "a token is needed\n" });
    expect((await ask(`${metrics}/metrics`, { headers: { authorization: "Bearer abc" } })).status).toBe(200);
  });

  it("says what a view failed with, and which paths there are", async () => {
    const { metrics } = await start({
      queues: async () => {
        throw new Error("the broker is away");
      },
    });
    expect(await ask(`${metrics}/debug/queues`)).toMatchObject({ status: 500, text: '{"error":"the broker is away"}' });
    const missing = await ask(`${metrics}/debug`);
    expect([missing.status, missing.text]).toEqual([404, "the paths are /metrics /debug/gates /debug/queues\n"]);
  });
});

describe("ports that are taken", () => {
  it("names the port and what it was for, and leaves no other one open", async () => {
    const { admin } = await start();
    const refused = { code: "LISTEN_FAILED" };
    await expect(start({}, { healthPort: admin.metricsPort })).rejects.toMatchObject({
      ...refused,
      message: expect.stringMatching(
        new RegExp(`cannot listen on 127\\.0\\.0\\.1:${admin.metricsPort} for the probes: `),
      ),
    });
    const second = await start();
    const { healthPort } = second.admin;
    await second.admin.close();
    running.pop();
    await expect(start({}, { healthPort, metricsPort: admin.metricsPort })).rejects.toMatchObject({
      ...refused,
      message: expect.stringMatching(/ for the metrics: /),
    });
    // Free again: the same port can be had.
    expect((await start({}, { healthPort })).admin.healthPort).toBe(healthPort);
  });
});
