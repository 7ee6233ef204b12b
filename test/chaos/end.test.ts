import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { DispatchProcess } from "../support/dispatch-process.ts";
import { RedisStore, SqliteStore } from "../support/dispatch-store.ts";
import { GatewayProcess } from "../support/gateway-process.ts";
import { messages, requestsReach } from "./account.ts";

/**
 * Milliseconds that a stop may take beyond its drain time, and what a machine may need besides that stands still for a
 * second now and then. One limit too many (`LAST_WRITES`, then all of `LAST_MOMENTS`) is still beyond that.
 */
const LIMIT = 5000 + 3500;
const DRAIN = ["--drain-timeout", "300ms"];

const folder = mkdtempSync(join(tmpdir(), "sluice-end-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** A gate that holds everything of its own for ever: a timer, every verdict, and its end. */
const PLUGIN = `export const sticky = {
  kind: "gate",
  type: "sticky",
  describe: "Never lets go.",
  parameters: { safeParse: (value) => ({ success: true, data: value }) },
  create() {
    setInterval(() => {}, 1000);
    return {
      capacities: [{ key: "sticky", read: () => new Promise(() => {}) }],
      budget: () => new Promise(() => {}),
      apply: () => new Promise(() => {}),
      close: () => new Promise(() => {}),
    };
  },
};
`;

async function endsInTime(dispatcher: DispatchProcess): Promise<void> {
  await dispatcher.process.stop("SIGTERM", LIMIT);
  expect(dispatcher.process.exit).toEqual({ code: 0, signal: null });
}

describe("SIGTERM ends the process within the drain time and five seconds", () => {
  it.each(["killed", "hangs"])("while results cannot be written: Redis %s", async (how) => {
    const store = await RedisStore.start();
    const gateway = await GatewayProcess.start({ delay: 500 });
    try {
      await store.submit(messages(100));
      const dispatcher = await DispatchProcess.start({
        ...{ transport: store.transport, gateway: gateway.url, workers: 16, args: DRAIN },
      });
      await requestsReach(gateway, 16, dispatcher.process);
      if (how === "killed") await store.server.kill();
      else store.server.process().child.kill("SIGSTOP");
      await endsInTime(dispatcher);
    } finally {
      await gateway.stop();
      await store.close();
    }
  });

  it("while somebody's gate answers nothing and keeps a timer", async () => {
    const store = await SqliteStore.start();
    const gateway = await GatewayProcess.start({});
    const plugin = join(folder, "sticky.mjs");
    writeFileSync(plugin, PLUGIN);
    const config = join(folder, "dispatch.yaml");
    writeFileSync(config, `plugins: [${plugin}]\n`);
    try {
      await store.submit(messages(20));
      const dispatcher = await DispatchProcess.start({
        ...{ transport: store.transport, gateway: gateway.url, queue: { gate_type: "sticky" } },
        args: [...DRAIN, "--config", config],
      });
      await endsInTime(dispatcher);
      expect(await store.leftovers()).toMatchObject({ claimed: 0, waiting: 20 });
    } finally {
      await gateway.stop();
      await store.close();
    }
  });
});
