import { createHash, type X509Certificate } from "node:crypto";
import { connect } from "node:tls";
import { afterEach, describe, expect, it } from "vitest";
import { ask, chat, JSON_HEADERS } from "../support/client.ts";
import { type RunningEnvoy, startEnvoy } from "../support/envoy.ts";
import { poll } from "../support/poll.ts";
import { type Epp, endpointsFile, type Sim, startEpp, startSims } from "../support/stack.ts";

/** The certificate that a TLS server shows. */
function certificateOf(port: number): Promise<X509Certificate> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: "127.0.0.1", port, rejectUnauthorized: false, ALPNProtocols: ["h2"] }, () => {
      const certificate = socket.getPeerX509Certificate();
      socket.destroy();
      if (certificate === undefined) reject(new Error("no certificate"));
      else resolve(certificate);
    });
    socket.on("error", reject);
  });
}

function pinOf(certificate: X509Certificate): string {
  return createHash("sha256")
    .update(certificate.publicKey.export({ type: "spki", format: "der" }))
    .digest("base64");
}

describe("real Envoy 1.40, TLS to the picker (D-40)", () => {
  const running: { stop(): Promise<void> }[] = [];
  afterEach(async () => {
    await Promise.all(running.splice(0).map((one) => one.stop()));
  });

  const servers = async (): Promise<{ sims: readonly Sim[]; endpoints: string }> => {
    const sims = await startSims(2, ["--inter-token-latency", "0", "--time-to-first-token", "0"]);
    running.push(...sims.map(({ process }) => process));
    return { sims, endpoints: endpointsFile(sims.map(({ port }) => port)) };
  };

  const picker = async (endpoints: string, args: readonly string[] = []): Promise<Epp> => {
    const epp = await startEpp(endpoints, 0, ["--secure-serving=true", ...args]);
    running.push(epp.process);
    return epp;
  };

  const envoy = async (epp: Epp, pins: readonly string[], edit?: (yaml: string) => string): Promise<RunningEnvoy> => {
    const started = await startEnvoy({
      variant: "tls",
      eppPort: epp.port,
      serverPorts: [],
      bootstrap: { tls: { pins, ca: undefined } },
      ...(edit === undefined ? {} : { edit }),
    });
    running.push(started.process);
    return started;
  };

  const complete = (port: number) =>
    ask(`http://127.0.0.1:${port}/v1/chat/completions`, { headers: JSON_HEADERS, body: chat("hello") });

  it("takes the certificate that the picker makes itself, also when its key is pinned", async () => {
    const { endpoints } = await servers();
    const epp = await picker(endpoints);
    for (const pins of [[], [pinOf(await certificateOf(epp.port))]]) {
      const { port } = await envoy(epp, pins);
      await poll("the first answer", async () => (await complete(port)).status === 200);
    }
  });

  it("fails closed when the key is another: no server sees the request", async () => {
    const { endpoints, sims } = await servers();
    const epp = await picker(endpoints);
    const wrong = createHash("sha256").update("another key").digest("base64");
    const { port, stat } = await envoy(epp, [wrong]);
    await poll("the handshake to be refused", async () => (await stat("cluster.epp.ssl.fail_verify_cert_hash")) > 0);
    expect((await complete(port)).status).toBe(503);
    expect(await stat("cluster.epp.ssl.handshake")).toBe(0);
    expect(await stat("cluster.picked_endpoint.upstream_cx_total")).toBe(0);
    for (const { url } of sims) expect(JSON.parse((await ask(`${url}/admin/requests`)).text).requests).toEqual([]);
  });

  it("sends nothing new to a replica that drains, and loses nothing", async () => {
    const { endpoints } = await servers();
    const [stays, leaves] = [await picker(endpoints), await picker(endpoints, ["--drain-timeout", "1h"])];
    const second = (yaml: string): string => {
      const host = `- endpoint: { address: { socket_address: { address: 127.0.0.1, port_value: ${stays.port} } } }`;
      expect(yaml).toContain(host);
      return yaml.replace(host, (line) => `${line}\n        ${line.replace(String(stays.port), String(leaves.port))}`);
    };
    const { port, findsPickers } = await envoy(stays, [], second);
    const exchanges = async ({ adminUrl }: Epp): Promise<number> =>
      Number(
        /^sluice_exchanges_total\{outcome="complete"\} (\d+)$/m.exec((await ask(`${adminUrl}/metrics`)).text)?.[1] ?? 0,
      );
    // A client has its answer before the picker has counted the exchange.
    const counted = () =>
      poll("every exchange to be counted", async () => {
        const [here, there] = [await exchanges(leaves), await exchanges(stays)];
        return here + there === statuses.length ? ([here, there] as const) : undefined;
      });
    await findsPickers(2);
    const statuses: number[] = [];
    const send = async (times: number): Promise<void> => {
      for (let i = 0; i < times; i++) statuses.push((await complete(port)).status);
    };
    await send(40);
    expect((await counted())[0]).toBeGreaterThan(0);

    leaves.process.child.kill("SIGTERM");
    // Between the signal and the next health check requests still go there, and are answered.
    let noticed = false;
    const meanwhile = (async () => {
      while (!noticed) await send(1);
    })();
    await findsPickers(1);
    noticed = true;
    await meanwhile;
    // Both workers have been told: from now on the count stands still.
    const [before, others] = await counted();
    await send(40);
    expect(await counted()).toEqual([before, others + 40]);
    expect(new Set(statuses)).toEqual(new Set([200]));
  });
});
