import { execFile } from "node:child_process";
import { z } from "zod";
import type { Clock, Timer } from "../../base/clock/clock.ts";
import { messageOf, oneLine, SluiceError } from "../../base/inference/errors.ts";

/** Milliseconds a credential plugin may take: some ask a person to confirm in a browser. */
const TIMEOUT = 60_000;
const MAX_OUTPUT = 1024 * 1024;
/** Milliseconds before its end at which a credential is no longer used. */
const EARLY = 10_000;

/** The credential plugin of a kubeconfig. */
export interface ExecPlugin {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** `client.authentication.k8s.io/v1` or `/v1beta1`. */
  readonly apiVersion: string;
  /** Help for a person who lacks the command. */
  readonly installHint: string;
  /** `spec.cluster` in the plugin's input; undefined where the plugin does not want it. */
  readonly cluster: unknown;
}

/** The output of a plugin. */
export interface ExecCredential {
  readonly token: string | undefined;
  readonly cert: string | undefined;
  readonly key: string | undefined;
}

const OUTPUT = z.object({
  kind: z.literal("ExecCredential"),
  status: z.object({
    token: z.string().optional(),
    clientCertificateData: z.string().optional(),
    clientKeyData: z.string().optional(),
    expirationTimestamp: z.iso.datetime({ offset: true }).optional(),
  }),
});

/** Runs a credential plugin (client.authentication.k8s.io) and keeps its credential until that expires; one run at a time. */
export class ExecCredentials {
  readonly #plugin: ExecPlugin;
  readonly #clock: Clock;
  #running: Promise<ExecCredential> | undefined;
  #last: ExecCredential | undefined;
  /** Unix milliseconds. */
  #until = 0;

  constructor(plugin: ExecPlugin, clock: Clock) {
    this.#plugin = plugin;
    this.#clock = clock;
  }

  /** The last credential of the plugin; undefined before the first one. */
  get last(): ExecCredential | undefined {
    return this.#last;
  }

  /** @throws SluiceError CREDENTIAL_PLUGIN */
  credential(): Promise<ExecCredential> {
    if (this.#last !== undefined && this.#clock.wall() < this.#until) return Promise.resolve(this.#last);
    this.#running ??= this.#renew();
    return this.#running;
  }

  /** The next call of `credential` runs the plugin. */
  expire(): void {
    this.#until = 0;
  }

  async #renew(): Promise<ExecCredential> {
    try {
      const { token, clientCertificateData, clientKeyData, expirationTimestamp } = this.#read(await this.#run());
      this.#last = { token, cert: clientCertificateData, key: clientKeyData };
      this.#until =
        expirationTimestamp === undefined ? Number.POSITIVE_INFINITY : Date.parse(expirationTimestamp) - EARLY;
      return this.#last;
    } finally {
      this.#running = undefined;
    }
  }

  #run(): Promise<string> {
    const { command, args, env, apiVersion, installHint, cluster } = this.#plugin;
    const info = { kind: "ExecCredential", apiVersion, spec: { interactive: false, cluster } };
    return new Promise((resolve, reject) => {
      let timer: Timer | undefined;
      const child = execFile(
        command,
        args,
        { env: { ...process.env, ...env, KUBERNETES_EXEC_INFO: JSON.stringify(info) }, maxBuffer: MAX_OUTPUT },
        (error, stdout, stderr) => {
          timer?.cancel();
          if (error === null) resolve(stdout);
          else if ((error as NodeJS.ErrnoException).code === "ENOENT")
            reject(this.#failure(`is not installed${installHint === "" ? "" : `: ${oneLine(installHint)}`}`));
          else {
            const { code, signal } = error;
            const end = signal ? `was ended by ${signal}` : `failed (${code})`;
            reject(this.#failure(`${end}: ${messageOf(stderr.trim()).slice(0, 400)}`));
          }
        },
      );
      const end = (): void => {
        child.kill("SIGKILL");
        // Processes that the plugin has started may live on and keep these open.
        child.stdout?.destroy();
        child.stderr?.destroy();
      };
      timer = this.#clock.after(TIMEOUT, end, true);
      child.stdin?.end();
    });
  }

  /** The output is secret: no part of it goes into a message. */
  #read(output: string): z.output<typeof OUTPUT>["status"] {
    let value: unknown;
    try {
      value = JSON.parse(output);
    } catch {
      throw this.#failure("printed no JSON");
    }
    const result = OUTPUT.safeParse(value);
    if (!result.success)
      throw this.#failure(
        `printed no valid ExecCredential: fault at ${result.error.issues[0]?.path.join(".") || "the top"}`,
      );
    const { status } = result.data;
    if ((status.clientCertificateData === undefined) !== (status.clientKeyData === undefined))
      throw this.#failure("printed a client certificate without its key, or a key without its certificate");
    if (status.token === undefined && status.clientCertificateData === undefined)
      throw this.#failure("printed neither a token nor a client certificate");
    return status;
  }

  #failure(what: string): SluiceError {
    return new SluiceError("CREDENTIAL_PLUGIN", `the credential plugin \`${this.#plugin.command}\` ${what}`);
  }
}
