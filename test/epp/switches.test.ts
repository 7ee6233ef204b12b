import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ExtProcClient, startBareEpp } from "../support/epp-process.ts";
import { fromStruct, type Plain } from "../support/extproc-client.ts";
import { sluice } from "../support/process.ts";
import { endpointsFile, portOf, type Sim, startSims } from "../support/stack.ts";

let sims: Sim[];
let endpoints: string;
beforeAll(async () => {
  sims = await startSims(1);
  endpoints = endpointsFile(sims.map((sim) => sim.port));
});
afterAll(() => Promise.all((sims ?? []).map((sim) => sim.process.stop())));

const GET = [
  [":method", "GET"],
  [":path", "/v1/models"],
] as const;

/** What a header-only request is answered by a picker with these flags. */
async function headerOnly(file: string, ...flags: string[]): Promise<Plain> {
  const epp = await startBareEpp(file, ["--secure-serving=false", ...flags]);
  const client = await ExtProcClient.connect(epp.port);
  const stream = client.open();
  stream.requestHeaders(GET, true);
  const reply = await stream.next();
  client.close();
  await epp.process.stop();
  return reply;
}

describe("switches of the wire, from the command line to the proxy", () => {
  it.each([
    [[], 503],
    [["--legacy-header-only-500"], 500],
    [["--parity", "v1.5"], 500],
    [["--parity=v1.5", "--legacy-header-only-500=false"], 503],
  ])("%j answers a header-only request to an empty pool with %d (E-14, C-1)", async (flags, status) => {
    const { immediateResponse } = await headerOnly(endpointsFile([]), ...flags);
    expect(immediateResponse.status.code).toBe(status);
  });

  it("carries the pick under the names of v0.3's flags (epp-protocol 7.3)", async () => {
    const names = ["-destinationEndpointHintKey", "x-picked", "-DestinationEndpointHintMetadataNamespace", "my.lb"];
    const reply = await headerOnly(endpoints, ...names);
    const set = reply.requestHeaders.response.headerMutation.setHeaders as Plain[];
    const picked = `127.0.0.1:${sims[0]!.port}`;
    const header = set.find((one) => one.header.key === "x-picked");
    expect(Buffer.from(header.header.rawValue).toString()).toBe(picked);
    expect(fromStruct(reply.dynamicMetadata)).toEqual({ "my.lb": { "x-picked": picked } });
  });

  it("writes the append action for proxies that do not read an unset one as overwrite, and none otherwise (E-03)", async () => {
    const actions = async (...flags: string[]): Promise<unknown[]> => {
      const reply = await headerOnly(endpoints, ...flags);
      return (reply.requestHeaders.response.headerMutation.setHeaders as Plain[]).map((one) => one.appendAction);
    };
    for (const action of await actions()) expect(action).toBeUndefined();
    for (const action of await actions("--append-action=literal")) expect(action).toBe(2);
  });

  it("serves buffered bodies with USE_STREAMING=false of v0.3, and streams without it (epp-protocol 13.4)", async () => {
    const replies = async (env: Record<string, string>): Promise<Plain[]> => {
      Object.assign(process.env, env);
      const epp = sluice(
        ...["epp", "--endpoints", endpoints, "--bind-address", "127.0.0.1", "--secure-serving=false"],
        ...["--grpc-port", "0", "--grpc-health-port", "0", "--metrics-port", "0"],
      );
      for (const name of Object.keys(env)) delete process.env[name];
      const client = await ExtProcClient.connect(portOf(await epp.listening("ext-proc")));
      const stream = client.open();
      const announced = { modes: null };
      stream.requestHeaders(
        [
          [":method", "POST"],
          [":path", "/v1/chat/completions"],
        ],
        false,
        announced,
      );
      stream.requestBody('{"model":"sim","messages":[{"role":"user","content":"hello"}]}', true, announced);
      const found = [await stream.next(), await stream.next()];
      client.close();
      await epp.stop();
      return found;
    };
    const [, buffered] = await replies({ USE_STREAMING: "false" });
    expect(buffered.requestBody.response.bodyMutation?.streamedResponse).toBeUndefined();
    const [, streamed] = await replies({});
    expect(streamed.requestBody.response.bodyMutation.streamedResponse.endOfStream).toBe(true);
  });
});
