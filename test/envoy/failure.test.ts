import { afterEach, describe, expect, it } from "vitest";
import { parseDocument } from "yaml";
import type { RequestBodyMode } from "../../src/wires/envoy/options.ts";
import { ask, chat, JSON_HEADERS } from "../support/client.ts";
import { Load } from "../support/load.ts";
import { poll } from "../support/poll.ts";
import { fixedLimit } from "../support/slowness.ts";
import { type Stack, startEpp, startStack } from "../support/stack.ts";

describe("the picker stops and starts again under load", () => {
  let stack: Stack | undefined;
  let load: Load | undefined;
  let again: Awaited<ReturnType<typeof startEpp>> | undefined;

  afterEach(async () => {
    await load?.stop();
    await again?.process.stop();
    await stack?.stop();
  });

  const begin = async (
    config: "standalone" | "override-host",
    requestBodyMode: RequestBodyMode = "full-duplex",
  ): Promise<Stack> => {
    stack = await startStack(config, {
      simArgs: ["--max-num-seqs", "64", "--inter-token-latency", "1"],
      bootstrap: { requestBodyMode },
    });
    const { url } = stack;
    await poll("the first answer", async () => (await ask(`${url}/v1/models`)).status === 200);
    load = new Load(url);
    const running = load;
    await poll("traffic to flow", () => running.seen.filter((one) => one.status === 200).length > 50);
    return stack;
  };

  /** What became of the requests that were sent after this time: what was on its way may come much later than others. */
  const sentAfter = (since: number) => load!.seen.filter(({ at }) => at > since);

  it("fail-closed: every request ends with the configured error within 3 s, and after the restart all succeed (D-34)", async () => {
    const { epp, endpoints, envoy } = await begin("standalone");
    const traffic = load!;
    const before = traffic.mark;
    await epp.process.stop("SIGKILL");
    await poll("Envoy to notice", async () => (await envoy.stat("cluster.epp.membership_healthy")) === 0);
    const down = performance.now();
    await poll("errors to be answered", () => sentAfter(down).length > 50);
    const during = traffic.seen.slice(before);
    expect(new Set(during.map((one) => one.status))).toEqual(
      new Set([...(during.some((one) => one.status === 200) ? [200] : []), 503]),
    );
    // Those that met the end of the picker come once: nothing but a request that hangs takes that long.
    expect(Math.max(...during.map((one) => one.ms))).toBeLessThan(fixedLimit(3000));
    // A machine that stands still makes all of them late, for a while. What waits for a limit of Envoy is late all the time.
    await poll("a stretch of errors that come within 3 s", () => {
      const stretch = sentAfter(down).slice(-50);
      return Math.max(...stretch.map((one) => one.ms)) < 3000;
    });
    expect(new Set(sentAfter(down).map((one) => one.status))).toEqual(new Set([503]));

    again = await startEpp(endpoints, epp.port);
    await poll("the health check to pass", async () => (await envoy.stat("cluster.epp.membership_healthy")) === 1);
    await poll("the first success", () => traffic.seen.at(-1)?.status === 200);
    const recovered = performance.now();
    await poll("traffic after the restart", () => sentAfter(recovered).length > 200);
    expect(new Set(sentAfter(recovered).map((one) => one.status))).toEqual(new Set([200]));
  });

  it("fail-open with duplex bodies: once Envoy has noticed every POST is answered by the fallback policy (D-37, V-6)", async () => {
    const { epp, endpoints, envoy } = await begin("override-host");
    const traffic = load!;
    const before = traffic.mark;
    await epp.process.stop("SIGKILL");
    await poll("Envoy to notice", async () => (await envoy.stat("cluster.epp.membership_healthy")) === 0);
    // Both workers have been told by now.
    const noticed = performance.now();
    await poll("traffic without the picker", () => sentAfter(noticed).length > 200);
    const early = traffic.seen.slice(before).filter((one) => one.at <= noticed);
    const lost = early.filter((one) => one.status !== 200).length;
    process.stdout.write(`fail-open: ${lost} of ${early.length} requests failed before Envoy noticed\n`);
    expect(new Set(sentAfter(noticed).map((one) => one.status))).toEqual(new Set([200]));

    await answersAgain(endpoints, epp.port);
  });

  it("fail-open with bodies kept by Envoy: no request is lost, from the first moment on (D-37, V-6)", async () => {
    const { epp, endpoints } = await begin("override-host", "buffered");
    const traffic = load!;
    const before = traffic.mark;
    await epp.process.stop("SIGKILL");
    const gone = performance.now();
    await poll("traffic without the picker", () => sentAfter(gone).length > 300);
    const lost = traffic.seen.slice(before).filter((one) => one.status !== 200);
    // What was in its response phase, which the picker still sees, ends with the picker: at most one per strand.
    expect(lost.length).toBeLessThanOrEqual(8);
    expect(new Set(sentAfter(gone).map((one) => one.status))).toEqual(new Set([200]));
    await answersAgain(endpoints, epp.port);
  });

  it("fail-open with duplex bodies and nobody who notices: what has a body is lost, what has none is not (D-37, V-6)", async () => {
    stack = await startStack("override-host", {
      bootstrap: { requestBodyMode: "full-duplex" },
      edit: (yaml) => {
        const document = parseDocument(yaml);
        for (const member of ["health_checks", "outlier_detection"])
          expect(document.deleteIn(["static_resources", "clusters", 1, member])).toBe(true);
        return document.toString();
      },
    });
    const { url, epp } = stack;
    const post = () => ask(`${url}/v1/chat/completions`, { headers: JSON_HEADERS, body: chat("hello") });
    await poll("the first answer", async () => (await post()).status === 200);
    await epp.process.stop();
    for (let i = 0; i < 5; i++)
      expect([(await ask(`${url}/v1/models`)).status, (await post()).status]).toEqual([200, 503]);
    expect(await stack.envoy.stat("http.inference.ext_proc.failure_mode_allowed")).toBe(5);
  });

  const answersAgain = async (endpoints: string, port: number): Promise<void> => {
    again = await startEpp(endpoints, port);
    const back = again;
    await poll("the picker to be asked again", async () => {
      const metrics = (await ask(`${back.adminUrl}/metrics`)).text;
      return Number(/^sluice_exchanges_total\{outcome="complete"\} (\d+)$/m.exec(metrics)?.[1] ?? 0) > 20;
    });
  };
});
