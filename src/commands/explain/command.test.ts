import { mkdtempSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import { type AddressInfo, createServer as createTcpServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeAll, describe, expect, it } from "vitest";
import { startTestAdmin, type TestAdmin } from "../../../test/support/admin-port.ts";
import { type ClientAuthority, clientAuthority } from "../../../test/support/certificates.ts";
import { freePort } from "../../../test/support/free-port.ts";
import { explainCommand } from "./command.ts";

const EXPLAINED = {
  ...{ sequence: 2, requestId: "r/two", at: "2026-01-01T00:00:00.000Z", model: "m", targetModel: "m", priority: 0 },
  ...{ configHash: "", profile: "default", picker: "p", tied: 1, candidateCount: 1, full: true, refusal: null },
  ...{ sentence: "Request r/two went to default/a (10.0.0.1:1): it is the only candidate.", filters: [], others: [] },
  ...{ notes: [], candidates: [] },
};
const VIEWS: Parameters<typeof startTestAdmin>[0] = {
  decisions: () => [{ sequence: 2 }, { sequence: 1 }],
  decision: (id) => (id === "2" || id === "r/two" ? EXPLAINED : undefined),
  keptDecisions: () => ({ count: 0, most: 4096, oldest: undefined }),
  requestIds: (start) => (start === "0aa11bb2" ? ["0aa11bb2-one", "0aa11bb2-two"] : []),
  fullDecision: (id) => (id === "2" ? '{"full":{"now":0.1}}' : id === "1" ? null : undefined),
  fullDecisions: () => ['{"full":{"now":0.1}}', '{"full":{"now":0.2}}'],
};

const FOLDER = mkdtempSync(join(tmpdir(), "sluice-explain-"));
const file = (name: string, text: string): string => {
  writeFileSync(join(FOLDER, name), text);
  return join(FOLDER, name);
};

let authority: ClientAuthority;
let admin: TestAdmin | undefined;
let server: { close(): unknown } | undefined;

beforeAll(async () => {
  authority = await clientAuthority();
});
afterEach(async () => {
  await admin?.close();
  server?.close();
  admin = undefined;
  server = undefined;
});

async function start(views: typeof VIEWS = {}, options: Parameters<typeof startTestAdmin>[1] = {}): Promise<string> {
  admin = await startTestAdmin({ ...VIEWS, ...views }, options);
  return admin.url;
}

async function run(...args: string[]): Promise<string> {
  let out = "";
  const output = {
    out: (text: string) => {
      out += text;
    },
    err: () => {},
  };
  await explainCommand(output).parseAsync(args, { from: "user" });
  return out;
}

/** The message of the error it ends with. */
async function failure(...args: string[]): Promise<string> {
  return run(...args).then(
    (out) => `succeeded: ${out}`,
    (error: Error) => error.message,
  );
}

describe("sluice explain", () => {
  it("finds a decision by number, by request id whatever stands in it, and the newest one", async () => {
    const url = await start();
    const text = `${EXPLAINED.sentence}\n\ndecision 2   `;
    for (const which of ["2", "r/two", "--last"]) expect(await run(which, "--admin", url)).toContain(text);
    // The scheme may be left away, as in an address that a ready line shows.
    expect(await run("2", "--admin", url.slice("http://".length))).toContain(text);
    expect(JSON.parse(await run("2", "--json", "--admin", url))).toEqual(EXPLAINED);
  });

  it("prints a full record as it was received, or says how to have one", async () => {
    const url = await start();
    expect(await run("2", "--full", "--admin", url)).toBe('{"full":{"now":0.1}}\n');
    expect(await failure("1", "--full", "--admin", url)).toMatch(/no full record\..*--full-records-every/);
  });

  it("prints all full records as lines, or says how to have some", async () => {
    const url = await start();
    expect(await run("--all", "--full", "--admin", url)).toBe('{"full":{"now":0.1}}\n{"full":{"now":0.2}}\n');
    for (const args of [["--all"], ["--all", "--full", "2"], ["--all", "--full", "--last"]])
      expect(await failure(...args, "--admin", url)).toBe(
        "--all needs --full, and works without an id and without --last",
      );
    await admin?.close();
    const none = await start({ fullDecisions: () => [] });
    expect(await failure("--all", "--full", "--admin", none)).toMatch(
      /^no decision has a full record\. Start .*--full-records-every/,
    );
    await admin?.close();
    // A version without the list of full records answers with the other one.
    const other = await start({ fullDecisions: () => ['{"sequence":1}'] });
    expect(await failure("--all", "--full", "--admin", other)).toContain(
      "use the same version of sluice as the process",
    );
  });

  it("says which decisions are kept and how to find ids when it finds none", async () => {
    const url = await start({ decisions: () => [] });
    expect(await failure("99", "--admin", url)).toMatch(
      /^no decision 99\. The process has .* keeps at most the newest 4,096 decisions, .*\.\nGive the x-request-id .*explain --last/,
    );
    expect(await failure("0aa11bb2", "--admin", url)).toBe(
      "several request ids begin with 0aa11bb2; give more characters of one of them: 0aa11bb2-one, 0aa11bb2-two",
    );
    expect(await failure("--last", "--admin", url)).toBe("the process has made no decision yet; send a request first");
  });

  it("needs one decision: an id, --last or --replay", async () => {
    expect(await failure()).toContain("--last, or --replay FILE");
    expect(await failure("2", "--last")).toBe("give either an id or --last");
    expect(await failure("2", "--admin", "ftp://x")).toContain('--admin: "ftp://x" is not an address');
    expect(await failure("2", "--admin", "http://127.0.0.1:1/debug")).toContain("is not an address");
    // A password is not repeated.
    expect(await failure("2", "--admin", "http://u:secret@h")).not.toContain("secret");
  });

  it("names the commands and flags that open an admin port when no process listens", async () => {
    const port = await freePort();
    expect(await failure("2", "--admin", `127.0.0.1:${port}`)).toBe(
      `no process listens at http://127.0.0.1:${port}; sluice epp opens its admin port with --metrics-port, sluice gateway with --admin`,
    );
  });

  it("passes on why it is refused", async () => {
    const url = await start({}, { peer: "192.0.2.7" });
    expect(await failure("2", "--admin", url)).toBe(
      `${url} answers 403: /debug/decisions/2 answers only clients on loopback; --debug-open opens it to all clients`,
    );
    await admin?.close();
    const other = await start({}, { token: "sesame" });
    expect(await failure("2", "--admin", other)).toBe(
      `${other} answers 401: a token is needed; give a token with --token-file`,
    );
  });

  it("shows the token of a file, and says what is no token", async () => {
    const url = await start({}, { token: "sesame" });
    expect(await run("2", "--admin", url, "--token-file", file("token", "sesame\n"))).toContain(
      "Request r/two went to",
    );
    for (const wrong of ["", "two\nlines\n"])
      expect(await failure("2", "--admin", url, "--token-file", file("wrong", wrong))).toBe(
        `--token-file: ${join(FOLDER, "wrong")} holds no token; a token is one line of printable characters`,
      );
  });

  it("tells another program from the admin port of this version", async () => {
    const listening = async (other: Server): Promise<string> => {
      server = other;
      await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
      return `http://127.0.0.1:${(other.address() as AddressInfo).port}`;
    };
    const page = await listening(createServer((_request, response) => void response.end("404 page not found")));
    expect(await failure("2", "--admin", page)).toContain(`${page} answers with 200, but not as an admin port`);
    server?.close();
    const json = await listening(createServer((_request, response) => void response.end('{"status":"success"}')));
    expect(await failure("2", "--admin", json)).toContain("not the explanation of a decision");
    server?.close();
    const cut = await listening(createTcpServer((socket) => void socket.destroy()) as unknown as Server);
    expect(await failure("2", "--admin", cut)).toContain("if the port speaks TLS, write https://");
  });

  it("speaks TLS, and names the flag that is missing for it", async () => {
    const url = await start({}, { tls: { ...authority.server, clientCa: authority.ca } });
    const ca = file("ca.pem", authority.ca);
    const [cert, key] = [file("client.pem", authority.client.cert), file("client.key", authority.client.key)];
    const own = ["--cert", cert, "--key", key];
    expect(await run("2", "--admin", url, "--ca-cert", ca, ...own)).toContain("decision 2");
    expect(await failure("2", "--admin", url, ...own)).toContain("give the certificate of its CA with --ca-cert");
    expect(await failure("2", "--admin", url, "--ca-cert", ca)).toContain("give --cert and --key");
    expect(await failure("2", "--admin", url, "--cert", cert)).toBe("--cert and --key must be given together");
    expect(await failure("2", "--admin", url.replace("https", "http"))).toContain("write https://");
    expect(await failure("2", "--admin", url, "--ca-cert", join(FOLDER, "missing"))).toContain("does not exist");
    await admin?.close();
    const plain = (await start()).replace("http:", "https:");
    expect(await failure("2", "--admin", plain)).toContain("does not speak TLS; write http://");
  });
});
